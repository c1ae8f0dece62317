import type { Command } from 'commander'
import type { KeyView } from '../../vault/host/api/custodyApi.ts'
import { assertOneStdin } from './custodyCommands.ts'
import { asOwner, type CommonFlags, neededPassword, withCommonFlags } from './flags.ts'
import { handOut } from './handOut.ts'
import { readSecretFile } from './readSecretFile.ts'
import { wholeNumber } from './wholeNumber.ts'

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
/** An address is put into other commands: without --json, standard output has it alone or, when that failed, nothing. */
const addressOutput = ({ json }: CommonFlags): NodeJS.WriteStream => (json ? process.stdout : process.stderr)

const warning = 'Whoever has this needs no approval of yours any more. Delete it where it is not needed.'

/** `tollgate vault keys …` and `tollgate vault address` */
export function registerKeys(vault: Command): void {
  withCommonFlags(vault.command('address'))
    .description('Print the address of the wallet on a chain: where to send it money.')
    .argument('<chain>', 'such as base, solana, base-sepolia')
    .action((chain: string, flags: CommonFlags) =>
      asOwner(
        flags,
        async (client, output) => {
          const path = `/address/${encodeURIComponent(chain)}`
          const answer = await client.call<{ address: string; chain: string }>('GET', path)
          if (flags.json) output.result(answer, answer.address)
          else process.stdout.write(`${answer.address}\n`)
        },
        addressOutput(flags),
      ),
    )

  const keys = vault
    .command('keys')
    .description('The keys themselves: which there are, which are used, in and out.')

  withCommonFlags(keys.command('list'))
    .description('Show the keys, and which of them agents use.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const answer = await client.call<{ keys: KeyView[] }>('GET', `${base}/keys`)
        output.rows(
          answer.keys,
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
    .description('Add one more account of the recovery words.')
    .argument('<family>', 'evm or solana')
    .argument('<index>', 'number of the account, from 0')
    .option('--test', 'an account for test chains, which is used on no other', false)
    .action((family: string, index: string, { test, ...flags }: CommonFlags & { test: boolean }) =>
      asOwner(flags, async (client, output) => {
        const body = { family, index: wholeNumber('<index>', index, 0, 999_999_999), test }
        const key = await client.call<KeyView>('POST', `${base}/keys/derive`, body)
        output.result(key, `${key.id}: ${key.address}`)
      }),
    )

  withCommonFlags(keys.command('use'))
    .description('Let agents use this key from now on, on every chain of its family.')
    .argument('<id>', 'as keys list shows it: evm:0, import:hot …')
    .addHelpText(
      'after',
      `
A key for test chains (--test of derive and import) is used on these only, any other on none of them.`,
    )
    .action((id: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const key = await client.call<KeyView>('POST', `${base}/keys/use`, { id })
        output.result(key, `Agents use ${key.id}, ${key.address}.`)
      }),
    )

  withCommonFlags(keys.command('import'))
    .description('Take in a private key that another wallet has.')
    .argument('<name>', 'what it is called here; its id becomes import:<name>')
    .requiredOption('--family <family>', 'evm or solana')
    .option('--file <file>', 'where the key is; - for standard input', '-')
    .option('--test', 'a key for test chains: never one that has real money anywhere', false)
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
          `${key.id}: ${key.address}\nAgents use it after: tollgate vault keys use ${key.id}`,
        )
      }),
    )

  withCommonFlags(keys.command('import-words'))
    .description('Put other recovery words (BIP-39) in the place of those that are here.')
    .option('--file <file>', 'where the words are; - for standard input', '-')
    .addHelpText(
      'after',
      `
Every account that is derived from words gets another address; imported keys stay. The old words stay in the vault, but
nothing shows them any more: export them first, unless you have them.

Example:
  tollgate vault keys import-words --file words --password-file pw`,
    )
    .action((flags: WordFlags) =>
      asOwner(flags, async (client, output) => {
        assertOneStdin(flags.passwordFile, flags.file)
        const mnemonic = readSecretFile(flags.file, (text) => output.warn(text))
        const body = { password: await neededPassword(flags, output), mnemonic }
        const answer = await client.call<{ keys: KeyView[] }>('POST', `${base}/mnemonic/import`, body)
        output.result(answer, answer.keys.map(({ id, address }) => `${id}: ${address}`).join('\n'))
      }),
    )

  withCommonFlags(keys.command('export'))
    .description('Hand out a private key.')
    .argument('<id>', 'as keys list shows it')
    .requiredOption('--to <file>', 'a new file (mode 0600); - for standard output')
    .addHelpText(
      'after',
      `
Whoever has the key has everything on its account, and no rule of the vault holds for it. The password is asked for again.
EVM: 0x and 64 hexadecimal digits. Solana: base58 of 64 bytes, as wallets take it.

Example:
  tollgate vault keys export import:hot --to key.txt --password-file pw`,
    )
    .action((id: string, flags: ExportFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { password: await neededPassword(flags, output), id }
        await handOut(flags.to, output, async () => {
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
    .description('Hand out the recovery words.')
    .requiredOption('--to <file>', 'a new file (mode 0600); - for standard output')
    .addHelpText(
      'after',
      `
Whoever has the words has everything on every account that is derived from them. The password is asked for again.

Example:
  tollgate vault keys export-words --to words --password-file pw`,
    )
    .action((flags: ExportFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { password: await neededPassword(flags, output) }
        await handOut(flags.to, output, async () => {
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
