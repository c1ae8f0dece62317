import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'

export function registerCheck(program: Command): void {
  program
    .command('check')
    .description("Check a configuration, and print each link's resolved program.")
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--json', 'one JSON object per link, also on a terminal')
    .addHelpText(
      'after',
      `
Every problem is named with its line. Links come from the database, when there is one; without links, the program of each
kind of link is shown. Nothing is started, and of the database only the tables are brought to this version. Exit status 0 when all is well, 2 when the
configuration does not hold.`,
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
            title: 'Program',
            value: (l) => l.program.map((s) => `${s.phase}: ${s.plugin}`).join(' → '),
            isWhole: true,
          },
          { title: 'Deliver', value: (l) => l.deliver.join(', '), isWhole: true },
          { title: 'Log', value: (l) => l.log.join(', '), isWhole: true },
        ])
        output.say(`${config} holds.`)
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}
