import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'

export function registerCheck(program: Command): void {
  program
    .command('check')
    .description('Check a configuration file, and print which plugins run for each link.')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--json', 'print one JSON object per link, even on a terminal')
    .addHelpText(
      'after',
      `
Every problem is reported with its line. Links come from the database, if there is one; without links, the pipeline of each
kind of link is shown. Nothing is started. The database is only migrated to this version's tables. Exit status 0 if the configuration is
valid, 2 if not.`,
    )
    .action(async ({ config, json }: { config: string; json?: true }) => {
      const output = createOutput({ stdout: process.stdout, stderr: process.stderr, json, env: process.env })
      try {
        const { checkConfig } = await import('../runtime/checkConfig.ts')
        const { links, warnings } = await checkConfig(config, process.env)
        for (const warning of warnings) output.warn(warning)
        output.rows(links, [
          { title: 'Link', value: (l) => l.link, isWhole: true },
          { title: 'Price', value: (l) => (l.price === '0' ? 'free' : `${l.price} USDC`), align: 'right' },
          {
            title: 'Pipeline',
            value: (l) => l.pipeline.map((s) => `${s.phase}: ${s.plugin}`).join(' → '),
            isWhole: true,
          },
          { title: 'Deliver', value: (l) => l.deliver.join(', '), isWhole: true },
          { title: 'Log', value: (l) => l.log.join(', '), isWhole: true },
        ])
        output.say(`${config} is valid.`)
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}
