import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'

interface Flags {
  readonly config: string
  readonly json?: true
  readonly all?: boolean
  readonly chain: boolean
}

export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .description(
      'Examine the configuration, the chains, the facilitators and the ledger, and say what is wrong.',
    )
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--json', 'one JSON object per finding, also on a terminal')
    .option('--all', 'read the whole ledger, also days that were found right before')
    .option('--no-chain', 'do not look purchases up on chain')
    .addHelpText(
      'after',
      `
Reads some rows at a time, beside a gateway that runs, and writes down which days it has found right: the next run reads what moved
since, and the last 30 days. The ledger check: every charged payment has one purchase, the ledger's entries add up to zero, every
purchase that a webhook listens for has its event, and every purchase's transfer and every refund is on its chain. Exit status 0 when nothing is wrong, 1 otherwise.`,
    )
    .action(async ({ config, json, all = false, chain }: Flags) => {
      const output = createOutput({ stdout: process.stdout, stderr: process.stderr, json, env: process.env })
      try {
        const { examine } = await import('../runtime/examine.ts')
        const progress = output.progress('Reading the configuration')
        const findings = await examine(config, process.env, {
          asksChains: chain,
          skipsJudged: !all,
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
