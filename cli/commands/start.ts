import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'

export function registerStart(program: Command): void {
  program
    .command('start')
    .description('Run the gateway and the admin API until they are told to stop.')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .addHelpText(
      'after',
      `
The plugins are read again when the file changes, and on SIGHUP; a configuration that does not hold leaves the running
one as it is. SIGTERM and Ctrl-C let calls under way end first.

Examples:
  tollgate start
  tollgate start --config /etc/tollgate/tollgate.yaml`,
    )
    .action(async ({ config }: { config: string }) => {
      try {
        const { runGateway } = await import('../runtime/runGateway.ts')
        await runGateway(config)
      } catch (error) {
        process.exitCode = createOutput(process).fail(error)
      }
    })
}
