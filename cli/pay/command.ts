import { type Command, Option } from 'commander'
import { exitCodeHelp, exitCodes } from './exitCodes.ts'
import type { PayFlags } from './runPay.ts'

const help = `
Keys come from --key-file or from TOLLGATE_EVM_KEY and TOLLGATE_SOLANA_KEY, never from an argument. The file must be
readable by its owner only and contain a 0x EVM key, a Solana key of 64 bytes (base58 or a JSON array), or JSON with
"evm" and "solana".

Without a key: --vault is the address of a vault (tollgate vault) or of a proxy in front of a vault. The vault builds and signs the payment by its
owner's rules; while the owner's approval is open, this program waits. The agent's token comes from --vault-token-file (mode 0600) or
from TOLLGATE_VAULT_TOKEN; a proxy on this machine needs none. A payment that is not exactly the offer is never sent.

A price up to --max is paid without confirmation. A person at the terminal must confirm a higher price. In a pipe, a higher price is refused.
--yes confirms prices up to ten times --max, reports this on stderr, and never confirms more.

Before a payment is sent, it is stored in a file under $TOLLGATE_HOME/payments (default ~/.tollgate/payments), readable by
you only. If the outcome stays open, the same payment is sent again a few times. The same command (method, address and
body), or --resume FILE, continues with the payment later. A second payment is signed only with --again, or if the first can no longer
land. If two runs of a command overlap, one pays and the other ends with 15. A receipt counts as verified only if the chain confirms it.

With --deposit 1, the first call deposits 1 USDC into a payment channel with the seller, and each call signs a voucher for its price. Later
calls use the channel, also without --deposit. At most the deposit is unspent in the channel. --refund-channel gets the rest back.

On a terminal the response is printed without control characters; --output FILE keeps its bytes. In a pipe,
or with --json, stdout gets one JSON object; progress goes to stderr.

${exitCodeHelp}`

/**
 * Adds `tollgate pay` to the program. Sets the exit code of the process when the run has ended.
 *
 * @example registerPay(new Command('tollgate'))
 */
export function registerPay(program: Command): void {
  program
    .command('pay')
    .description('Call a URL once, and pay for the call by x402 (version 2).')
    .argument('[url]', 'URL to call')
    .option(
      '--network <name>',
      'pay on this network only: base, base-sepolia, solana, solana-devnet or a CAIP-2 id',
    )
    .option(
      '--sign-in',
      'sign in with the wallet if the server offers that, and pay only if the server does not accept it',
    )
    .option('--max <usd>', 'ask for confirmation before paying more than this many USD (default 1.00)')
    .option('-y, --yes', 'pay more than --max without asking, up to ten times --max')
    .option(
      '--deposit <amount>',
      'pay by a payment channel, and fill it up to this much of its token (such as 1) if it does not cover the call',
    )
    .option('--refund-channel', "claim back what is left in the wallet's channel with the seller of the URL")
    .option('--json', 'print one JSON object, even on a terminal')
    .option('-X, --method <method>', 'HTTP method (default GET, or POST with --body)')
    .option('-d, --body <text>', 'request body, or @FILE to send the content of a file')
    .option('-H, --header <line>', 'request header "Name: value"; repeatable', collect)
    .option('--key-file <file>', 'file with the private key that pays (mode 0600)')
    .option('--vault <url>', 'URL of the vault or proxy that pays, such as http://127.0.0.1:8421')
    .option('--vault-token-file <file>', "file with the agent's token for the vault (mode 0600)")
    .addOption(
      new Option('--rpc <url>', 'URL of a node of the chain on which you pay (default: a public node)').env(
        'TOLLGATE_RPC_URL',
      ),
    )
    .option('-o, --output <file>', 'write the response body to this file')
    .option('--receipt <file>', "write the seller's signed receipt to this file")
    .option(
      '--timeout <seconds>',
      "time limit of the command in seconds, without the time in which it waits for you or for the vault's owner (default 30)",
    )
    .option('--max-body <bytes>', 'maximum size of the response in bytes (default 1000000)')
    .option('--insecure-http', 'allow sending a payment over plain HTTP to another machine')
    .option(
      '--resume <file>',
      'continue with the payment in this file, which was sent and whose outcome is unknown',
    )
    .option('--again', 'make a new payment even if a payment of the same command is open or in progress')
    .addHelpText('after', help)
    // Without this, commander would exit with 1 for a wrong option.
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : exitCodes.usage))
    .action(async (url: string | undefined, flags: PayFlags) => {
      process.exitCode = await runUntilInterrupted(url, flags)
    })
}

async function runUntilInterrupted(url: string | undefined, flags: PayFlags): Promise<number> {
  const controller = new AbortController()
  // The first Ctrl-C ends the run cleanly and removes this handler. A second Ctrl-C then ends the process at once.
  const interrupt = () => controller.abort()
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  try {
    // The chain libraries are large, so other commands and --help start without them.
    const { runPay } = await import('./runPay.ts')
    const { stdin, stdout, stderr, env } = process
    return await runPay(url, flags, { stdin, stdout, stderr, env, signal: controller.signal })
  } finally {
    process.removeListener('SIGINT', interrupt)
    process.removeListener('SIGTERM', interrupt)
  }
}

const collect = (line: string, lines: readonly string[] = []): readonly string[] => [...lines, line]
