import { type Command, Option } from 'commander'
import { createOutput } from '../output/createOutput.ts'
import { type Role, roles } from '../runtime/role.ts'

export function registerStart(program: Command): void {
  program
    .command('start')
    .description('Run the gateway, the admin API and the background jobs.')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .addOption(
      new Option(
        '--only <part>',
        'run only this part, and run the other parts in other processes with the same database',
      ).choices(roles),
    )
    .addHelpText(
      'after',
      `
The plugins are reloaded when the file changes, and on SIGHUP. An invalid configuration leaves the running
one unchanged. SIGTERM and Ctrl-C let running calls finish first. With gateway.shutdownDelayMs, /readyz responds with 503 for that
time before; a second signal ends the delay.

Each part may run in separate processes on one database: gateway (the public listener), admin (the admin API, the pages, tools)
and jobs (settling keys, recovery, health probes, webhooks). Each part may run several times. The admin port of every
process serves /healthz, /readyz and /metrics.

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
