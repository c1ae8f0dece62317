import type { Command } from 'commander'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import type { PayoutSet } from '../runtime/createStore.ts'
import { storeText } from './init.ts'

interface StoreFlags {
  readonly json?: true
  readonly config: string
  readonly name?: string
  readonly base?: string
  readonly solana?: string
}

export function registerStore(program: Command): void {
  const store = program.command('store').description('Create and change the stores of sellers.')
  store
    .command('create')
    .description('Create a store as the operator, and print its API key once.')
    .argument('<username>', 'username of the store: 3 to 32 characters of a-z, 0-9 and _')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--name <text>', 'display name')
    .option('--base <address>', "the store's payout wallet on Base")
    .option('--solana <address>', "the store's payout wallet on Solana")
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
Works while the gateway is running. Sellers can also open a store themselves by signing in with a wallet: see /docs.

Example:
  tollgate store create alice --base 0xYourWallet`,
    )
    .action(async (username: string, flags: StoreFlags) => {
      const { config, name, base, solana } = flags
      const output = outputOf(flags)
      try {
        const { createStore } = await import('../runtime/createStore.ts')
        const created = await createStore(config, process.env, {
          username,
          ...(name !== undefined && { displayName: name }),
          ...(base !== undefined && { base }),
          ...(solana !== undefined && { solana }),
        })
        output.result(created, storeText(created))
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
  store
    .command('payout')
    .description(
      "Set the payout wallets of a store as the operator. No signature of the store's wallet is needed.",
    )
    .argument('<username>', 'username of the store')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--base <address>', 'the new payout wallet on Base; none removes the wallet')
    .option('--solana <address>', 'the new payout wallet on Solana; none removes the wallet')
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
Works while the gateway is running. Offers use the new wallets within a second. A chain that is not given stays unchanged. Make
sure that the request comes from the seller. Sellers normally change their wallets themselves, signed by the wallet that signs in
(POST /api/v1/profile/payout/nonce). This command is for a seller who lost that wallet, or never had one.

Example:
  tollgate store payout alice --base 0xNewWallet --solana none`,
    )
    .action(async (username: string, flags: StoreFlags) => {
      const { config, base, solana } = flags
      const output = outputOf(flags)
      try {
        const { setPayout } = await import('../runtime/createStore.ts')
        const set = await setPayout(config, process.env, username, {
          ...(base !== undefined && { base: base === 'none' ? null : base }),
          ...(solana !== undefined && { solana: solana === 'none' ? null : solana }),
        })
        output.result(set, payoutText(set))
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

function payoutText({ username, was, payout }: PayoutSet): string {
  const line = (chain: 'base' | 'solana') => {
    const [from, to] = [was[chain] ?? 'none', payout[chain] ?? 'none']
    return from === to ? `  ${chain}  ${to} (as before)` : `  ${chain}  ${to} (was ${from})`
  }
  return [`Payout wallets of the store ${username}:`, line('base'), line('solana')].join('\n')
}
