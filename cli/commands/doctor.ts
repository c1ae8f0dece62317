import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

interface Flags {
  readonly config: string
  readonly json?: true
  readonly all?: boolean
  readonly chain: boolean
  readonly chainDays: string
}

/** So many sales of a network that the books lack are named one by one on a terminal. */
const MISSING_SHOWN = 20
const MOST_CHAIN_DAYS = 365

export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .description(
      'Examine the configuration, the chains, the facilitators and the ledger, and say what is wrong.',
    )
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--json', 'one JSON object per finding, also on a terminal')
    .option('--all', 'read the whole ledger, also days that were found right before')
    .option('--no-chain', 'look no purchase up on chain, and nothing that is on chain up in the books')
    .option('--chain-days <days>', 'days of the chains that are held against the books', '2')
    .addHelpText(
      'after',
      `
Reads some rows at a time, beside a gateway that runs, and writes down which days it has found right: the next run reads what moved
since, and the last 30 days. The ledger check: every charged payment has one purchase, the ledger's entries add up to zero, every
purchase that a webhook listens for has its event, every purchase's transfer and every refund is on its chain, and what the settling
keys have put on chain in the last days is in the books: a database that is an older copy of itself lacks it. Exit status 0 when nothing is wrong, 1 otherwise.`,
    )
    .action(async ({ config, json, all = false, chain, chainDays }: Flags) => {
      const output = createOutput({ stdout: process.stdout, stderr: process.stderr, json, env: process.env })
      try {
        const days = daysOf(chainDays)
        const { examine } = await import('../runtime/examine.ts')
        const progress = output.progress('Reading the configuration')
        const findings = await examine(config, process.env, {
          asksChains: chain,
          skipsJudged: !all,
          chainDays: days,
          ...(output.isJson ? {} : { missingShown: MISSING_SHOWN }),
          onProgress: (text) => progress.update(text),
        })
        progress.done()
        output.rows(findings, [
          { title: '', value: (f) => (f.isWarning ? 'warning' : f.ok ? 'ok' : 'PROBLEM') },
          { title: 'What', value: (f) => f.subject },
          // Said whole: what is cut off may be what is to be done. The subject stands beside it.
          { title: 'Finding', value: (f) => f.message.replace(`${f.subject}: `, ''), isWhole: true },
        ])
        if (findings.some((f) => !f.ok)) process.exitCode = 1
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

/** A part of a day as well. @throws {UsageError} */
function daysOf(text: string): number {
  const days = Number(text)
  if (/^\d{1,3}(\.\d{1,4})?$/.test(text) && days > 0 && days <= MOST_CHAIN_DAYS) return days
  throw new UsageError(
    `Expected --chain-days to be a number above 0 and up to ${MOST_CHAIN_DAYS}, got ${text}.`,
  )
}
