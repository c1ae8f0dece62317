import type { Command } from 'commander'
import type { DemoFlags } from '../demo/runDemo.ts'
import { createOutput } from '../output/createOutput.ts'
import { ownPackage } from '../version.ts'

export function registerDemo(program: Command): void {
  program
    .command('demo')
    .description('Pay an API through the gateway on two local chains, offline, and show every step.')
    .option('--once', 'make the calls, then exit; the exit status is 0 if all calls succeeded')
    .option(
      '--port <port>',
      'port of the gateway (default: 8080, or a free port if 8080 is in use or with --once)',
    )
    .option(
      '--write-env <file>',
      'write the addresses and keys of the demo to this file, which a shell reads with `. ./FILE`; the demo deletes the file when it ends',
    )
    .option('--json', 'print one JSON object per paid call, even on a terminal')
    .addHelpText(
      'after',
      `
Starts a local EVM node with a test USDC (as Base Sepolia), a local Solana runtime (as Devnet), a sample API, and the
gateway in front of it. A buyer with the ordinary x402 client pays one call on each chain. Then an agent without a key
buys through its owner's vault: a cheap call within the owner's rules, and an expensive one after the owner's approval, which
--once gives automatically. Nothing leaves this machine and no real money is involved.

Examples:
  tollgate demo              keep running afterwards, with addresses to try
  tollgate demo --once       for scripts: pay once per chain, then end
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

/**
 * The packages with which the demo runs its chains and pays. A gateway needs none of them, so they are not dependencies of this
 * package.
 */
const demoPackages = [
  '@x402/core',
  '@x402/fetch',
  '@x402/evm',
  '@x402/svm',
  '@solana/kit',
  '@foundry-rs/anvil',
  'litesvm',
]

function whatIsMissing(error: unknown): unknown {
  const { code, message } = error as { code?: unknown; message?: string }
  const isClientMissing = code === 'ERR_MODULE_NOT_FOUND' && /@x402|@solana\/kit/.test(message ?? '')
  if (!isClientMissing && code !== 'local_chain_not_installed') return error
  const { devDependencies } = ownPackage()
  const packages = demoPackages.map((name) => `${name}@${devDependencies?.[name] ?? 'latest'}`)
  return new Error(
    'The demo needs the x402 clients and the two local chains, which do not come with tollgate. Install them beside it ' +
      `(with --global if tollgate is installed globally) and run the demo again:\n  npm install ${packages.join(' ')}`,
    { cause: error },
  )
}
