import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  realpathSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import type { Command } from 'commander'
import type { Config } from '../../core/config/types.ts'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

export function registerBackup(program: Command): void {
  program
    .command('backup')
    .description('Write a consistent copy of the database while the gateway runs.')
    .argument('<file>', 'file to write; it must not exist')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .addHelpText(
      'after',
      "\nKeep the secret's file (secretFile) with it: without it, API keys and sealed headers are lost.",
    )
    .option(...jsonOption)
    .action(async (file: string, flags: { config: string; json?: true }) => {
      const { config } = flags
      const output = outputOf(flags)
      try {
        const { openStore } = await import('../runtime/open/openStore.ts')
        const { readConfig } = await import('../runtime/readConfig.ts')
        const path = fileOf((await readConfig(config, process.env)).config)
        // It would be made, and the copy of nothing taken for a backup.
        if (!existsSync(path)) throw new UsageError(`Expected a database at ${path}, found none.`)
        const store = await openStore(config, process.env)
        try {
          await store.backup!(file)
        } finally {
          await store.close()
        }
        output.result({ written: file }, `Wrote ${file}.`)
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
  program
    .command('restore')
    .description('Put a copy in the place of the database. Stop the gateway first.')
    .argument('<file>', 'a file that `tollgate backup` wrote')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--force', 'replace a database that is there')
    .option(...jsonOption)
    .action(async (file: string, flags: { config: string; force?: true; json?: true }) => {
      const { config, force } = flags
      const output = outputOf(flags)
      try {
        const { readConfig } = await import('../runtime/readConfig.ts')
        const path = fileOf((await readConfig(config, process.env)).config)
        await restore(file, path, force === true)
        output.result({ restored: path, from: file }, `Restored ${path} from ${file}.`)
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

/** The database's file. @throws `UsageError` where the store is none: PostgreSQL has better tools of its own */
function fileOf({ storage }: Config): string {
  if (storage.postgres === undefined) return storage.path
  const { schema } = storage.postgres
  throw new UsageError(
    `PostgreSQL is backed up and restored by its own tools, such as pg_dump --schema=${schema} and pg_restore.`,
  )
}

/** What is there is replaced in one step, by a copy that is whole and on disk: one that fails leaves it as it was, with its log. */
async function restore(from: string, path: string, mayReplace: boolean): Promise<void> {
  if (!statSync(from, { throwIfNoEntry: false })?.isFile())
    throw new UsageError(`Expected a backup at ${from}, found none.`)
  const isThere = existsSync(path)
  if (isThere && !mayReplace) throw new UsageError(`${path} is there already. Replace it with --force.`)
  mkdirSync(dirname(path), { recursive: true })
  const to = isThere ? realpathSync(path) : path
  if (isThere && realpathSync(from) === to)
    throw new UsageError(`Expected a backup, but ${from} is the database itself.`)
  const { isWorkedOn } = await import('../../adapters/sqlite/backup/isWorkedOn.ts')
  const refuseWhileWorkedOn = (): void => {
    if (!isThere || !isWorkedOn(to)) return
    // It would go on selling into a file that has no name any more.
    throw new UsageError(
      `A gateway works on ${to}, and what it sells from then on would be lost. Stop it first.`,
    )
  }
  refuseWhileWorkedOn()
  const unfinished = `${to}.${process.pid}.unfinished`
  try {
    copyFileSync(from, unfinished)
    chmodSync(unfinished, 0o600)
    // Whoever restores as root leaves the database to the gateway's own user.
    if (isThere) giveTo(statSync(to), unfinished)
    // The copy, because the backup may lie where nothing can be written.
    const { isDatabase } = await import('../../adapters/sqlite/backup/isDatabase.ts')
    if (!isDatabase(unfinished))
      throw new UsageError(`Expected a backup at ${from}, but it can not be read as one.`)
    const { replaceDatabase } = await import('../../adapters/sqlite/backup/replaceDatabase.ts')
    // Reading a large copy takes long enough for a service manager to start one.
    refuseWhileWorkedOn()
    replaceDatabase(to, unfinished)
  } finally {
    for (const suffix of ['', '-wal', '-shm']) rmSync(unfinished + suffix, { force: true })
  }
}

function giveTo({ uid, gid }: Stats, file: string): void {
  const own = statSync(file)
  if (own.uid !== uid || own.gid !== gid) chownSync(file, uid, gid)
}
