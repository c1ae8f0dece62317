import { copyFileSync, existsSync, rmSync } from 'node:fs'
import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'
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
    .action(async (file: string, { config }: { config: string }) => {
      const output = createOutput(process)
      try {
        const { openStore } = await import('../runtime/openStore.ts')
        const store = await openStore(config, process.env)
        try {
          if (store.backup === undefined)
            throw new UsageError('This store is backed up by tools of its own, not by this command.')
          await store.backup(file)
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
    .action(async (file: string, { config, force }: { config: string; force?: true }) => {
      const output = createOutput(process)
      try {
        const { readConfig } = await import('../runtime/readConfig.ts')
        const { path } = (await readConfig(config, process.env)).config.storage
        restore(file, path, force === true)
        output.result({ restored: path, from: file }, `Restored ${path} from ${file}.`)
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

function restore(from: string, to: string, mayReplace: boolean): void {
  if (!existsSync(from)) throw new UsageError(`Expected a backup at ${from}, found none.`)
  if (existsSync(to) && !mayReplace) throw new UsageError(`${to} is there already. Replace it with --force.`)
  // The write-ahead log belongs to the database that is replaced.
  for (const suffix of ['-wal', '-shm']) rmSync(to + suffix, { force: true })
  copyFileSync(from, to)
}
