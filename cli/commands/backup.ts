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
import type { Config } from '../../core/config/schema.ts'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

export function registerBackup(program: Command): void {
  program
    .command('backup')
    .description('Write a consistent copy of the database while the gateway runs.')
    .argument('<file>', 'file to write, which must not exist yet')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .addHelpText(
      'after',
      '\nKeep the secret file (secretFile) with the backup. Without the secret, API keys and sealed headers are lost.',
    )
    .option(...jsonOption)
    .action(async (file: string, flags: { config: string; json?: true }) => {
      const { config } = flags
      const output = outputOf(flags)
      try {
        const { openStore } = await import('../runtime/open/openStore.ts')
        const { readConfig } = await import('../runtime/readConfig.ts')
        const path = fileOf((await readConfig(config, process.env)).config)
        // SQLite would create a missing database when it is opened. The backup would then be an empty database.
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
    .description('Replace the database with a backup. Stop the gateway first.')
    .argument('<file>', 'file written by `tollgate backup`')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--force', 'replace an existing database')
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

/** Path of the database file. @throws `UsageError` for PostgreSQL, which has its own backup tools */
function fileOf({ storage }: Config): string {
  if (storage.postgres === undefined) return storage.path
  const { schema } = storage.postgres
  throw new UsageError(
    `Back up and restore PostgreSQL with its own tools, such as pg_dump --schema=${schema} and pg_restore.`,
  )
}

/**
 * Replaces the database in one step by a complete copy that is on disk. If it fails, the old database and its write-ahead log
 * stay unchanged.
 */
async function restore(from: string, path: string, mayReplace: boolean): Promise<void> {
  if (!statSync(from, { throwIfNoEntry: false })?.isFile())
    throw new UsageError(`Expected a backup at ${from}, found none.`)
  const isThere = existsSync(path)
  if (isThere && !mayReplace) throw new UsageError(`${path} already exists. Use --force to replace the file.`)
  mkdirSync(dirname(path), { recursive: true })
  const to = isThere ? realpathSync(path) : path
  if (isThere && realpathSync(from) === to)
    throw new UsageError(`Expected a backup, but ${from} is the database itself.`)
  const { isDatabase, isWorkedOn, replaceDatabase } = await import(
    '../../adapters/store/sqlite/backup/backup.ts'
  )
  const refuseWhileWorkedOn = (): void => {
    if (!isThere || !isWorkedOn(to)) return
    // A running gateway would continue to write its sales into the deleted file.
    throw new UsageError(
      `A gateway is using ${to}, and sales that it makes after the restore would be lost. Stop the gateway first.`,
    )
  }
  refuseWhileWorkedOn()
  const unfinished = `${to}.${process.pid}.unfinished`
  try {
    copyFileSync(from, unfinished)
    chmodSync(unfinished, 0o600)
    // If root restores a backup, the database must still belong to the gateway's user.
    if (isThere) giveTo(statSync(to), unfinished)
    // The copy is checked, because SQLite may be unable to open a backup on a read-only disk.
    if (!isDatabase(unfinished))
      throw new UsageError(`Expected a backup at ${from}, but the file is not a readable database.`)
    // Checked again, because a service manager may start a gateway while a large copy is read.
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
