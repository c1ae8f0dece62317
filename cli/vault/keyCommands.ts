import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { KeyView } from '../../vault/host/api/custodyApi.ts'
import { UsageError, wholeNumber } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, neededPassword, told, vaultHome, withCommonFlags } from './flags.ts'
import { readSecretFile, writeSecret } from './secretFiles.ts'

interface ImportFlags extends CommonFlags {
  readonly family: string
  readonly file: string
  readonly test: boolean
}
interface WordFlags extends CommonFlags {
  readonly file: string
}
interface ExportFlags extends CommonFlags {
  readonly to: string
}

const base = '/v1/vault/owner'
/**
 * The stream for messages of commands that print an address. Other commands use the address as input, so without --json,
 * standard output contains nothing else.
 */
const addressOutput = ({ json }: CommonFlags): NodeJS.WriteStream => (json ? process.stdout : process.stderr)

const warning =
  'This secret controls the account without your approval. Delete every copy that you do not need.'

/** `tollgate vault keys …` and `tollgate vault address` */
export function registerKeys(vault: Command): void {
  withCommonFlags(vault.command('address'))
    .description('Print the address of the wallet on a chain, to which you can send money.')
    .argument('<chain>', 'name of the chain, such as base, solana or base-sepolia')
    .action((chain: string, flags: CommonFlags) =>
      asOwner(
        flags,
        async (client, output) => {
          const path = `/address/${encodeURIComponent(chain)}`
          const response = await client.call<{ address: string; chain: string }>('GET', path)
          if (flags.json) output.result(response, response.address)
          else process.stdout.write(`${response.address}\n`)
        },
        addressOutput(flags),
      ),
    )

  const keys = vault.command('keys').description('List, select, derive, import and export keys.')

  withCommonFlags(keys.command('list'))
    .description('Show the keys, and mark the keys that agents use.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const response = await client.call<{ keys: KeyView[] }>('GET', `${base}/keys`)
        output.rows(
          response.keys,
          [
            { title: 'Id', value: ({ id }) => id, isWhole: true },
            { title: 'Address', value: ({ address }) => address, isWhole: true },
            { title: 'From', value: ({ path }) => path ?? 'imported' },
            {
              title: 'Used',
              value: ({ in_use, test }) => (in_use ? (test ? 'on test chains' : 'yes') : ''),
              isWhole: true,
            },
          ],
          'No keys.',
        )
      }),
    )

  withCommonFlags(keys.command('derive'))
    .description('Derive one more account from the recovery words.')
    .argument('<family>', 'evm or solana')
    .argument('<index>', 'number of the account, from 0')
    .option('--test', 'use the account only on test chains', false)
    .action((family: string, index: string, { test, ...flags }: CommonFlags & { test: boolean }) =>
      asOwner(flags, async (client, output) => {
        const body = { family, index: wholeNumber('<index>', index, 0, 999_999_999), test }
        const key = await client.call<KeyView>('POST', `${base}/keys/derive`, body)
        output.result(key, `${key.id}: ${key.address}`)
      }),
    )

  withCommonFlags(keys.command('use'))
    .description('Let agents use this key from now on, on every chain of its family.')
    .argument('<id>', 'id of the key as `keys list` shows it, such as evm:0 or import:hot')
    .addHelpText(
      'after',
      `
A key for test chains (--test of derive and import) is used only on test chains. Other keys are never used on test chains.`,
    )
    .action((id: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const key = await client.call<KeyView>('POST', `${base}/keys/use`, { id })
        output.result(key, `Agents now use ${key.id}, ${key.address}.`)
      }),
    )

  withCommonFlags(keys.command('import'))
    .description('Import the private key of another wallet.')
    .argument('<name>', 'name of the key in this vault; the id of the key becomes import:<name>')
    .requiredOption('--family <family>', 'evm or solana')
    .option('--file <file>', 'file with the key; - reads it from standard input', '-')
    .option('--test', 'use the key only on test chains, never with real money', false)
    .addHelpText(
      'after',
      `
EVM: 64 hexadecimal digits. Solana: 64 bytes in base58, the list of numbers of solana-keygen, or hexadecimal digits. An
address is refused. The password is asked for again, also by a running vault. Agents use the key after: tollgate vault keys use import:<name>

Example:
  tollgate vault keys import hot --family evm --file key.txt --password-file pw`,
    )
    .action((name: string, flags: ImportFlags) =>
      asOwner(flags, async (client, output) => {
        assertOneStdin(flags.passwordFile, flags.file)
        const privateKey = readSecretFile(flags.file, (text) => output.warn(text))
        const body = {
          password: await neededPassword(flags, output),
          family: flags.family,
          name,
          private_key: privateKey,
          test: flags.test,
        }
        const key = await client.call<KeyView>('POST', `${base}/keys/import`, body)
        output.result(
          key,
          `${key.id}: ${key.address}\nTo let agents use it: tollgate vault keys use ${key.id}`,
        )
      }),
    )

  withCommonFlags(keys.command('import-words'))
    .description('Replace the recovery words (BIP-39) of the vault.')
    .option('--file <file>', 'file with the new recovery words; - reads them from standard input', '-')
    .addHelpText(
      'after',
      `
Every account that is derived from words gets another address. Imported keys stay. The old words stay in the vault, but
the vault no longer shows them. Export them first, unless you have them.

Example:
  tollgate vault keys import-words --file words --password-file pw`,
    )
    .action((flags: WordFlags) =>
      asOwner(flags, async (client, output) => {
        assertOneStdin(flags.passwordFile, flags.file)
        const mnemonic = readSecretFile(flags.file, (text) => output.warn(text))
        const body = { password: await neededPassword(flags, output), mnemonic }
        const response = await client.call<{ keys: KeyView[] }>('POST', `${base}/mnemonic/import`, body)
        output.result(response, response.keys.map(({ id, address }) => `${id}: ${address}`).join('\n'))
      }),
    )

  withCommonFlags(keys.command('export'))
    .description('Export a private key.')
    .argument('<id>', 'id of the key as `keys list` shows it')
    .requiredOption('--to <file>', 'new file to write to (mode 0600); - writes to standard output')
    .addHelpText(
      'after',
      `
The key controls everything on its account, without any rule of the vault. The command asks for the password again.
EVM: 0x and 64 hexadecimal digits. Solana: base58 of 64 bytes, as wallets take it.

Example:
  tollgate vault keys export import:hot --to key.txt --password-file pw`,
    )
    .action((id: string, flags: ExportFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { password: await neededPassword(flags, output), id }
        await writeSecret(flags.to, output, async () => {
          const { private_key: secret, ...key } = await client.call<KeyView & { private_key: string }>(
            'POST',
            `${base}/keys/export`,
            body,
          )
          return { secret, shown: key, name: 'private_key', warning }
        })
      }),
    )

  withCommonFlags(keys.command('export-words'))
    .description('Export the recovery words.')
    .requiredOption('--to <file>', 'new file to write to (mode 0600); - writes to standard output')
    .addHelpText(
      'after',
      `
The words control everything on every account derived from them. This command asks for the password again.

Example:
  tollgate vault keys export-words --to words --password-file pw`,
    )
    .action((flags: ExportFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { password: await neededPassword(flags, output) }
        await writeSecret(flags.to, output, async () => {
          const { mnemonic } = await client.call<{ mnemonic: string }>(
            'POST',
            `${base}/mnemonic/export`,
            body,
          )
          return { secret: mnemonic, shown: {}, name: 'mnemonic', warning }
        })
      }),
    )
}

interface PasswordFlags extends CommonFlags {
  readonly newPasswordFile?: string
}

/** `tollgate vault password`, `backup` and `restore`. */
export function registerCustody(vault: Command): void {
  withCommonFlags(vault.command('password'))
    .description('Change the password of the vault.')
    .option(
      '--new-password-file <file>',
      'file with the new password, 8 to 1024 characters; - reads it from standard input (default: ask for the new password twice)',
    )
    .addHelpText(
      'after',
      `
--password-file has the current password. One of the two files may be standard input. This command works on a running vault, open
or locked, and on the vault's folder when no vault runs. Older backups open with the password that was valid when they were made.

Example:
  tollgate vault password --password-file old --new-password-file new`,
    )
    .action((flags: PasswordFlags) =>
      asOwner(flags, async (client, output) => {
        assertOneStdin(flags.passwordFile, flags.newPasswordFile)
        const password = await neededPassword(flags, output)
        const { newPasswordFile: file } = flags
        const next = file === undefined ? {} : { passwordFile: file }
        const body = {
          password,
          new_password: await neededPassword(next, output, 'new', '--new-password-file'),
        }
        const response = await client.call<object>('POST', '/v1/vault/owner/password', body)
        output.result(response, 'The password is changed. Older backups still open with the old password.')
      }),
    )

  withCommonFlags(vault.command('backup'))
    .description('Write an encrypted backup of the whole vault to a new file (mode 0600).')
    .argument('<file>', 'path of the new file')
    .addHelpText(
      'after',
      `
The backup contains keys, values, rules, budgets and the log. It opens with the current password, so keep both. This command works on a running
vault that is open, and on the vault's folder with --password-file when no vault runs.

Example:
  tollgate vault backup ~/backups/vault-$(date +%F)`,
    )
    .action((file: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { file: resolve(file) }
        const response = await client.call<{ file: string }>('POST', '/v1/vault/owner/backup', body)
        output.result(response, `The backup is in ${response.file}. It opens with the current password.`)
      }),
    )

  withCommonFlags(vault.command('restore'))
    .description('Create a vault in an empty folder from a backup.')
    .argument('<file>', 'backup file')
    .addHelpText(
      'after',
      `
--password-file has the password of the day of the backup. The folder must not contain a vault. Stop a running vault, and name
another folder with --home or move the old vault away.

The backup lacks everything after it. Today's spending does not count in the budgets, and agents and pairings that you
revoked since are valid again, with their old tokens. So all of them are suspended. Read the list, revoke or rotate what
you revoked or rotated before, and resume the others with: tollgate vault agents resume NAME, pair resume ID.

Example:
  tollgate vault restore ~/backups/vault-2026-11-01 --home ~/restored --password-file pw`,
    )
    .action((file: string, flags: CommonFlags) =>
      told(flags, async (output) => {
        if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
          throw new UsageError(`Expected a backup at ${resolve(file)}, but there is no such file.`)
        const { restoreHome } = await import('./initVault.ts')
        const home = vaultHome(flags.home, process.env)
        const restored = await restoreHome(home, resolve(file), await neededPassword(flags, output))
        const { agents, pairings } = restored.suspended
        output.warn(
          `Money spent since the backup does not count in the budgets of this vault, and agents and tokens that you revoked since are valid again. ` +
            `So ${agents} agents and ${pairings} pairings are suspended until you resume each: ` +
            'tollgate vault agents resume NAME, tollgate vault pair resume ID.',
        )
        output.result(restored, `The vault ${restored.vault_id} is in ${home}.`)
      }),
    )
}

/** Refuses standard input for two files, because it can be read only once. @throws {UsageError} */
function assertOneStdin(...files: readonly (string | undefined)[]): void {
  if (files.filter((file) => file === '-').length > 1)
    throw new UsageError('Expected at most one of the files to be standard input (-).')
}
