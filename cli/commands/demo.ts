import type { Command } from 'commander'
import type { DemoFlags } from '../demo/runDemo.ts'
import { createOutput } from '../output/createOutput.ts'
import { ownPackage } from '../version.ts'

export function registerDemo(program: Command): void {
  program
    .command('demo')
    .description('Pay an API through the gateway on two local chains, offline, and show every step.')
    .option('--once', 'end after the calls; exit status 0 when all of them held')
    .option(
      '--port <port>',
      'port of the gateway (default: 8080, or a free one when that is taken or with --once)',
    )
    .option('--json', 'one JSON object per paid call, also on a terminal')
    .addHelpText(
      'after',
      `
Starts a local EVM node with a test USDC (as Base Sepolia), a local Solana runtime (as Devnet), a sample API, and the
gateway in front of it. A buyer with the ordinary x402 client pays one call on each chain. Then an agent without a key
buys through its owner's vault: a cheap call by the owner's rules, and a dear one after the owner's approval, which
--once gives by itself. Nothing leaves this machine and no real money is involved.

Examples:
  tollgate demo              stay up afterwards, with addresses to try
  tollgate demo --once       for scripts: pay once per chain and end
  tollgate demo --once | jq  one JSON object per paid call`,
    )
    .action(async (flags: DemoFlags) => {
      try {
        const { runDemo } = await import('../demo/runDemo.ts')
        process.exitCode = await runDemo(flags)
      } catch (error) {
        process.exitCode = createOutput(process).fail(whatIsMissing(error))
      }
    })
}

const clients = ['@x402/core', '@x402/fetch', '@x402/evm', '@x402/svm', '@solana/kit']

/** The demo's buyer is the x402 client, which a gateway does not need: an installed package comes without it. */
function whatIsMissing(error: unknown): unknown {
  const { code, message } = error as { code?: unknown; message?: string }
  if (code !== 'ERR_MODULE_NOT_FOUND' || !/@x402|@solana\/kit/.test(message ?? '')) return error
  const { devDependencies } = ownPackage()
  const packages = clients.map((name) => `${name}@${devDependencies?.[name] ?? 'latest'}`)
  return new Error(
    `The demo pays with the x402 clients, which are not installed. Install them beside tollgate, with --global if it is installed so:\n  npm install ${packages.join(' ')}`,
    { cause: error },
  )
}
