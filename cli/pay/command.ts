import type { Command } from 'commander'
import { exitCodeHelp, exitCodes } from './exitCodes.ts'
import type { PayFlags } from './runPay.ts'

const help = `
Keys come from --key-file or from TOLLGATE_EVM_KEY and TOLLGATE_SOLANA_KEY, never from an argument. The file must be
readable by its owner only and hold a 0x EVM key, a Solana key of 64 bytes (base58 or a JSON array), or JSON with
"evm" and "solana".

Without a key: --vault names a vault (tollgate vault) or the proxy in front of one. It builds and signs the payment, by its
owner's rules; while the owner is asked, this program waits. The agent's token comes from --vault-token-file (mode 0600) or
from TOLLGATE_VAULT_TOKEN; a proxy on this machine needs none. A payment that is not exactly the offer is never sent.

A price up to --max is paid without a question. Above it, a person at the terminal is asked; in a pipe it is refused.
--yes stands for that person, for prices up to ten times --max, and says on stderr that it did; it never agrees to more.

Before a payment is sent, it is kept in a file under $TOLLGATE_HOME/payments (default ~/.tollgate/payments), readable by
you only. When the outcome stays open, the same payment is sent again a few times. The same command (method, address and
body), or --resume FILE, goes on with it later; a second payment is signed only with --again, or when the first can not land
any more. Of two runs of a command at the same time, one pays and the other ends with 15. A receipt counts as verified only when the chain confirms it.

On a terminal the answer is printed without characters that could control it; --output FILE keeps its bytes. To a pipe,
or with --json, stdout gets one JSON object; progress goes to stderr.

${exitCodeHelp}`

/**
 * Adds `tollgate pay` to the program. The exit code is set on the process when the run has ended.
 *
 * @example registerPay(new Command('tollgate'))
 */
export function registerPay(program: Command): void {
  program
    .command('pay')
    .description('Call an address and pay for it over x402 (version 2), once')
    .argument('[url]', 'address to call')
    .option(
      '--network <name>',
      'pay on this network only: base, base-sepolia, solana, solana-devnet or a CAIP-2 id',
    )
    .option('--max <usd>', 'ask before paying more than this many USD (default 1.00)')
    .option('-y, --yes', 'answer that question with yes, up to ten times --max')
    .option('--json', 'print one JSON object on a terminal too')
    .option('-X, --method <method>', 'HTTP method (default GET, or POST with --body)')
    .option('-d, --body <text>', 'request body, or @FILE')
    .option('-H, --header <line>', 'request header "Name: value"; may be repeated', collect)
    .option('--key-file <file>', 'file with the key (mode 0600)')
    .option('--vault <url>', 'pay from a vault or its proxy, such as http://127.0.0.1:8421')
    .option('--vault-token-file <file>', "file with the agent's token for the vault (mode 0600)")
    .option('--rpc <url>', "node of the payment's chain (default: a public one)")
    .option('-o, --output <file>', "write the answer's bytes to this file")
    .option(
      '--timeout <seconds>',
      "time for the whole run; waiting for your answer, or for the vault's owner, not counted (default 30)",
    )
    .option('--max-body <bytes>', 'longest answer that is kept (default 1000000)')
    .option('--insecure-http', 'send a payment over plain HTTP to another machine')
    .option('--resume <file>', 'go on with a payment that was sent and left open')
    .option('--again', 'pay anew, though a payment of the same command is open or under way')
    .addHelpText('after', help)
    // Commander's own code for a wrong option would be 1.
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : exitCodes.usage))
    .action(async (url: string | undefined, flags: PayFlags) => {
      process.exitCode = await runUntilInterrupted(url, flags)
    })
}

async function runUntilInterrupted(url: string | undefined, flags: PayFlags): Promise<number> {
  const controller = new AbortController()
  // The first Ctrl-C ends the run in order; the handler is gone then, so a second one ends the process.
  const interrupt = () => controller.abort()
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  try {
    // The chains' libraries are large; the other commands, and --help, start without them.
    const { runPay } = await import('./runPay.ts')
    const { stdin, stdout, stderr, env } = process
    return await runPay(url, flags, { stdin, stdout, stderr, env, signal: controller.signal })
  } finally {
    process.removeListener('SIGINT', interrupt)
    process.removeListener('SIGTERM', interrupt)
  }
}

const collect = (line: string, lines: readonly string[] = []): readonly string[] => [...lines, line]
