import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { UsageError } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, neededPassword, told, vaultHome, withCommonFlags } from './flags.ts'

interface PasswordFlags extends CommonFlags {
  readonly newPasswordFile?: string
}

/** `tollgate vault password`, `backup` and `restore`. */
export function registerCustody(vault: Command): void {
  withCommonFlags(vault.command('password'))
    .description(
      'Change the password. Only the key that wraps the others is written anew; no record is touched.',
    )
    .option(
      '--new-password-file <file>',
      'the new password, 8 to 1024 characters (- for standard input), instead of typing it twice',
    )
    .addHelpText(
      'after',
      `
--password-file has the password as it is now; of the two files one may be standard input. Works on a running vault, open
or locked, and on its folder when none runs. Backups that were made before open with the password they were made with.

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
        const answer = await client.call<object>('POST', '/v1/vault/owner/password', body)
        output.result(answer, 'The password is changed. Older backups open with the old one.')
      }),
    )

  withCommonFlags(vault.command('backup'))
    .description('Write everything, encrypted, to one new file (mode 0600).')
    .argument('<file>', 'a file that is not there yet')
    .addHelpText(
      'after',
      `
Keys, values, rules, budgets and the log are in it. It opens with the password of this moment: keep both. Works on a running
vault that is open, and on its folder with --password-file when none runs.

Example:
  tollgate vault backup ~/backups/vault-$(date +%F)`,
    )
    .action((file: string, flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { file: resolve(file) }
        const answer = await client.call<{ file: string }>('POST', '/v1/vault/owner/backup', body)
        output.result(answer, `The backup is in ${answer.file}. It opens with the password of today.`)
      }),
    )

  withCommonFlags(vault.command('restore'))
    .description('Make a vault in an empty folder out of a backup.')
    .argument('<file>', 'a backup')
    .addHelpText(
      'after',
      `
--password-file has the password of the day of the backup. No vault may be in the folder: stop a running one, and name
another folder with --home or move the old one away.

What came after the backup is not in it: spending of today does not count in the budgets, and agents and pairings that you
revoked since are there again, with the tokens of then. So all of them are suspended. Look at the list, revoke or rotate what
you revoked or rotated before, and let the others go on: tollgate vault agents resume NAME, pair resume ID.

Example:
  tollgate vault restore ~/backups/vault-2026-11-01 --home ~/restored --password-file pw`,
    )
    .action((file: string, flags: CommonFlags) =>
      told(flags, async (output) => {
        if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
          throw new UsageError(`Expected a backup at ${resolve(file)}, there is no such file.`)
        const { restoreHome } = await import('./restoreHome.ts')
        const home = vaultHome(flags.home, process.env)
        const restored = await restoreHome(home, resolve(file), await neededPassword(flags, output))
        const { agents, pairings } = restored.suspended
        output.warn(
          `What was spent since the backup does not count in the budgets of this vault, and what you revoked since is there again. ` +
            `So ${agents} agents and ${pairings} pairings are suspended, until you let each go on: ` +
            'tollgate vault agents resume NAME, tollgate vault pair resume ID.',
        )
        output.result(restored, `The vault ${restored.vault_id} is in ${home}.`)
      }),
    )
}

/** Standard input can be read once. @throws {UsageError} */
export function assertOneStdin(...files: readonly (string | undefined)[]): void {
  if (files.filter((file) => file === '-').length > 1)
    throw new UsageError('Expected at most one of the files to be standard input (-).')
}
