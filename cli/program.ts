import { Command } from 'commander'
import { registerBackup } from './commands/backup.ts'
import { registerCheck } from './commands/check.ts'
import { registerDemo } from './commands/demo.ts'
import { registerDoctor } from './commands/doctor.ts'
import { registerInit } from './commands/init.ts'
import { registerLink } from './commands/link.ts'
import { registerMigrate } from './commands/migrate.ts'
import { registerPluginNew } from './commands/pluginNew.ts'
import { registerProxy } from './commands/proxy.ts'
import { registerRefund } from './commands/refund.ts'
import { registerRelay } from './commands/relay.ts'
import { registerSchema } from './commands/schema.ts'
import { registerStart } from './commands/start.ts'
import { registerStore } from './commands/store.ts'
import { registerVault } from './commands/vault.ts'
import { exitCodes } from './output/exitCodes.ts'
import { useHelpLayout } from './output/helpLayout.ts'
import { registerPay } from './pay/command.ts'
import { version } from './version.ts'

/** The `tollgate` command with all its parts. Each loads what it needs when it is called. */
export function createProgram(): Command {
  const program = new Command('tollgate')
  useHelpLayout(program)
  program
    .description('Sell calls to an API you already run: a gateway that puts it behind a paid link.')
    .version(version(), '-v, --version')
    .showHelpAfterError('(run with --help for what it takes)')
    .showSuggestionAfterError()
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? exitCodes.ok : exitCodes.usage))
    // What stands after a command is that command's: without it, here and at each parent, `tollgate vault --agent` takes
    // the --agent of `tollgate vault pair new`.
    .enablePositionalOptions()
    .addHelpText(
      'after',
      `
First steps:
  tollgate demo                       see a call being paid, offline
  tollgate init                       write tollgate.yaml
  tollgate start                      run the gateway
  tollgate link add URL --price 0.01  put an API behind a paid link
  tollgate pay URL                    buy a call`,
    )
  registerDemo(program)
  registerInit(program)
  registerStart(program)
  registerCheck(program)
  registerSchema(program)
  registerPluginNew(program)
  registerStore(program)
  registerLink(program)
  registerRefund(program)
  registerPay(program)
  registerVault(program)
  registerDoctor(program)
  registerMigrate(program)
  registerRelay(program)
  registerProxy(program)
  registerBackup(program)
  return program
}
