import { type Command, Option } from 'commander'
import { createOutput } from '../output/createOutput.ts'
import { type Role, roles } from '../runtime/role.ts'

export function registerStart(program: Command): void {
  program
    .command('start')
    .description('Run the gateway, the admin API and the background work until they are told to stop.')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .addOption(
      new Option('--only <part>', 'one part of it; other processes on the same store do the rest').choices(
        roles,
      ),
    )
    .addHelpText(
      'after',
      `
The plugins are read again when the file changes, and on SIGHUP; a configuration that does not hold leaves the running
one as it is. SIGTERM and Ctrl-C let calls under way end first; with gateway.shutdownDelayMs, /readyz answers 503 for that
time before, and a second signal ends the wait.

Each part may run in processes of its own on one store: gateway (the public listener), admin (the admin API, the pages, tools)
and jobs (settling keys, recovery, health probes, webhooks). Of each there may be several. The admin port of every
process answers /healthz, /readyz and /metrics.

Examples:
  tollgate start
  tollgate start --config /etc/tollgate/tollgate.yaml
  tollgate start --only gateway`,
    )
    .action(async ({ config, only }: { config: string; only?: Role }) => {
      try {
        const { runGateway } = await import('../runtime/runGateway.ts')
        await runGateway(config, only)
      } catch (error) {
        process.exitCode = createOutput(process).fail(error)
      }
    })
}
