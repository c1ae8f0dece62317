import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { silentLog } from '../../core/ports/log.ts'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { silentProgress } from '../output/progress.ts'

const count = (n: number) => n.toLocaleString('en-US')

export function registerMigrate(program: Command): void {
  program
    .command('migrate')
    .description(
      'Move the whole database from SQLite to PostgreSQL, and check the ledger there. Stop the gateway first.',
    )
    .requiredOption('--to <store>', 'kind of database to move to; only `postgres` is supported')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .addHelpText(
      'after',
      `
The configuration needs both: storage.path is the SQLite file, storage.postgres the target. The file is migrated to this version's
tables, and then only read. With storage.postgres in the configuration, the gateway uses PostgreSQL from its next start.
A failure or Ctrl-C moves nothing, and you can try again. Exit status 0 if everything was moved and the ledger is correct.`,
    )
    .option(...jsonOption)
    .action(async (flags: { config: string; to: string; json?: true }) => {
      const { config: file, to } = flags
      const output = outputOf(flags)
      let progress = silentProgress
      try {
        if (to !== 'postgres') throw new UsageError(`Expected --to postgres, got ${JSON.stringify(to)}.`)
        const { readConfig } = await import('../runtime/readConfig.ts')
        const { storage } = (await readConfig(file, process.env)).config
        const { path, postgres } = storage
        if (postgres === undefined)
          throw new UsageError(
            'Expected storage.postgres in the configuration, which names the target database.',
          )
        if (!existsSync(path))
          throw new UsageError(`Expected a database at ${path} (storage.path), found none.`)
        const { systemClock } = await import('../../core/ports/clock.ts')
        const { openSqlite } = await import('../../adapters/store/sqlite/openSqlite.ts')
        const { openPostgres } = await import('../../adapters/store/postgres/openPostgres.ts')
        const { moveFromSqlite } = await import('../../adapters/store/postgres/move/moveFromSqlite.ts')
        // The source is opened once, so that it is migrated to this version's tables, which the target has too.
        const options = { clock: systemClock, log: silentLog }
        progress = output.progress('Opening the file')
        const hear = (fields: { readonly table?: string; readonly rows?: number }, message: string) =>
          progress.update(
            fields.table === undefined
              ? message
              : `${message} ${fields.table}: ${count(fields.rows ?? 0)} rows`,
          )
        await (await openSqlite({ path, ...options, log: { ...silentLog, info: hear, warn: hear } })).close()
        progress.update('Moving')
        const store = await openPostgres({ ...postgres, ...options })
        try {
          const moved = await moveFromSqlite(path, postgres, (what, rows) =>
            progress.update(`Moving ${what}${rows === undefined ? '' : `: ${count(rows)} rows`}`),
          )
          progress.update('Checking the ledger')
          const { purchases, broken, unbalanced } = await store.purchases.ledgerCheck({
            onProgress: (rows, seen) => progress.update(`Checking the ledger: ${count(seen)} ${rows}`),
          })
          progress.done()
          output.rows(moved, [
            { title: 'Table', value: ({ table }) => table },
            { title: 'Rows', value: ({ rows }) => String(rows) },
          ])
          const mistakes = broken.length + unbalanced.length
          if (mistakes > 0)
            throw new Error(
              `Everything was moved, but the ledger in PostgreSQL has ${mistakes} problems. Run \`tollgate doctor\` with each database, and keep the file.`,
            )
          output.say(
            `\nEverything was moved, and the ledger is correct: ${purchases} purchases. With ${file}, the gateway uses PostgreSQL from its next start. Move ${path} away then: it is unchanged, and a gateway that starts on it would sell separately.`,
          )
        } finally {
          await store.close()
        }
      } catch (error) {
        progress.done()
        process.exitCode = output.fail(error)
      }
    })
}
