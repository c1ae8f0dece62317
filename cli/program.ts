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
import { registerVerifyReceipt } from './commands/verifyReceipt.ts'
import { exitCodes } from './output/exitCodes.ts'
import { columnsOf } from './output/style.ts'
import { wrap } from './output/table.ts'
import { registerPay } from './pay/command.ts'
import { version } from './version.ts'

/** The `tollgate` command with all subcommands. Each subcommand loads its modules when it runs. */
export function createPipeline(): Command {
  const program = new Command('tollgate')
  useHelpLayout(program)
  program
    .description('Sell calls to an API you already run. The gateway puts the API behind a paid link.')
    .version(version(), '-v, --version')
    .showHelpAfterError('(see --help)')
    .showSuggestionAfterError()
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? exitCodes.ok : exitCodes.usage))
    // An option after a subcommand's name belongs to the subcommand. Without this, here and on each parent,
    // `tollgate vault --agent` would take the --agent of `tollgate vault pair new`.
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
  registerVerifyReceipt(program)
  registerVault(program)
  registerDoctor(program)
  registerMigrate(program)
  registerRelay(program)
  registerProxy(program)
  registerBackup(program)
  return program
}

/** Maximum number of columns for prose, on any terminal. */
const MAX_COLUMNS = 100
/** Lines shorter than this, in characters, end where their author ended them. */
const MIN_BROKEN = 60

/**
 * Lays out a help text for a number of columns. Paragraphs are rewrapped. In a line with two parts, such as
 * ` 0 paid, and the response is complete`, continuation lines are aligned with the second part. A command stays on one line,
 * because users copy it.
 */
export function layOutHelp(text: string, columns: number): string {
  const laid: string[] = []
  let paragraph: string[] = []
  const endParagraph = () => {
    if (paragraph.length > 0) laid.push(...wrap(paragraph.join(' '), Math.min(columns, MAX_COLUMNS)))
    paragraph = []
  }
  for (const line of text.split('\n')) {
    const isProse = /^\S/.test(line)
    const goesOn = (paragraph.at(-1)?.length ?? 0) >= MIN_BROKEN
    if (!isProse || !goesOn) endParagraph()
    if (isProse) paragraph.push(line)
    else laid.push(...layOutItem(line, columns))
  }
  endParagraph()
  return laid.join('\n')
}

/** Lays out the help of a command and its subcommands for the terminal's width. Call this before adding subcommands. */
function useHelpLayout(program: Command): void {
  program
    .configureHelp({
      // Each subcommand has `[options]` after its name, which says nothing and takes space from the descriptions.
      subcommandTerm: (command) =>
        [
          [command.name(), ...command.aliases()].join('|'),
          ...command.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`)),
        ].join(' '),
    })
    .configureOutput({
      writeOut: (text) => process.stdout.write(layOutHelp(text, columnsOf(process.stdout))),
    })
}

function layOutItem(line: string, columns: number): string[] {
  const item = /^( +\S+ {2,})(\S.*)$/.exec(line)
  if (item === null || line.length <= columns) return [line]
  const [, term = '', words = ''] = item
  return wrap(words, Math.max(20, columns - term.length)).map((text, i) =>
    i === 0 ? term + text : ' '.repeat(term.length) + text,
  )
}
