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

/** Maximum number of missing sales that a terminal shows per network. */
const MISSING_SHOWN = 20
const MAX_CHAIN_DAYS = 365

export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .description('Check the configuration, the chains, the facilitators and the ledger, and report problems.')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--json', 'print one JSON object per finding, even on a terminal')
    .option('--all', 'check the whole ledger, including days that an earlier run found correct')
    .option('--no-chain', 'do not compare purchases, refunds and sales with the chains')
    .option(
      '--chain-days <days>',
      'number of past days for which the chains are compared with the ledger',
      '2',
    )
    .addHelpText(
      'after',
      `
Reads in small batches, alongside a running gateway, and records which days are correct. The next run reads what has changed
since, and the last 30 days. This command checks that every charged payment has one purchase, the ledger's entries add up to zero, every
purchase with a webhook has its event, the transfers of the newest 1,000 charged payments and refunds are on their chains, and every
sale that the settling keys have put on chain in the last days (--chain-days) is in the ledger. A database that was restored from an older copy lacks such sales.
Exit status 0 if nothing is wrong, 1 otherwise.`,
    )
    .action(async ({ config, json, all = false, chain, chainDays }: Flags) => {
      const output = createOutput({ stdout: process.stdout, stderr: process.stderr, json, env: process.env })
      try {
        const days = daysOf(chainDays)
        const { examine } = await import('../runtime/examine.ts')
        const progress = output.progress('Reading the configuration')
        const findings = await examine(config, process.env, {
          queriesChains: chain,
          skipsCheckedDays: !all,
          chainDays: days,
          ...(output.isJson ? {} : { missingShown: MISSING_SHOWN }),
          onProgress: (text) => progress.update(text),
        })
        progress.done()
        output.rows(findings, [
          { title: '', value: (f) => (f.isWarning ? 'warning' : f.ok ? 'ok' : 'PROBLEM') },
          { title: 'Check', value: (f) => f.subject },
          // The message is never cut, because its end may be the remedy. The subject has a column of its own.
          { title: 'Finding', value: (f) => f.message.replace(`${f.subject}: `, ''), isWhole: true },
        ])
        if (findings.some((f) => !f.ok)) process.exitCode = 1
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

/** Parses a number of days, which may be a fraction. @throws {UsageError} */
function daysOf(text: string): number {
  const days = Number(text)
  if (/^\d{1,3}(\.\d{1,4})?$/.test(text) && days > 0 && days <= MAX_CHAIN_DAYS) return days
  throw new UsageError(
    `Expected --chain-days to be a number above 0 and up to ${MAX_CHAIN_DAYS}, got ${text}.`,
  )
}
