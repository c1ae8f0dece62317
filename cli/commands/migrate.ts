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
      'Move a store from its SQLite file to PostgreSQL, whole, and check the books there. Stop the gateway first.',
    )
    .requiredOption('--to <store>', 'where to; `postgres` is the one that there is')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .addHelpText(
      'after',
      `
The configuration names both: storage.path is where the store is, storage.postgres where it goes. The file gets this version's
tables and is then only read; with storage.postgres in the configuration the gateway uses PostgreSQL from its next start.
What fails, and a Ctrl-C, moves nothing and can be tried again. Exit status 0 when everything was moved and the books hold.`,
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
          throw new UsageError('Expected storage.postgres in the configuration: where the store goes.')
        if (!existsSync(path))
          throw new UsageError(`Expected a database at ${path} (storage.path), found none.`)
        const { systemClock } = await import('../../core/ports/clock.ts')
        const { openSqlite } = await import('../../adapters/sqlite/openSqlite.ts')
        const { openPostgres } = await import('../../adapters/postgres/openPostgres.ts')
        const { moveFromSqlite } = await import('../../adapters/postgres/move/moveFromSqlite.ts')
        // Opened once, so that both have the tables of this version.
        const options = { clock: systemClock, log: silentLog }
        progress = output.progress('Opening the file')
        // Tables that are written anew take minutes.
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
          progress.update('Checking the books')
          const { purchases, broken, unbalanced } = await store.purchases.ledgerCheck({
            onProgress: (rows, seen) => progress.update(`Checking the books: ${count(seen)} ${rows}`),
          })
          progress.done()
          output.rows(moved, [
            { title: 'Table', value: ({ table }) => table },
            { title: 'Rows', value: ({ rows }) => String(rows) },
          ])
          const mistakes = broken.length + unbalanced.length
          if (mistakes > 0)
            throw new Error(
              `Everything was moved, but ${mistakes} mistakes were found in the books there. Ask \`tollgate doctor\` with either store, and keep the file.`,
            )
          output.say(
            `\nEverything was moved, and the books hold there: ${purchases} purchases. The gateway uses PostgreSQL from its next start, with ${file}. Put ${path} away then: it stays as it is, and whatever starts on it sells beside the other.`,
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
