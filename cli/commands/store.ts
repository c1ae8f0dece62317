import type { Command } from 'commander'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import type { PayoutSet } from '../runtime/setPayout.ts'
import { storeText } from './init.ts'

interface StoreFlags {
  readonly json?: true
  readonly config: string
  readonly name?: string
  readonly base?: string
  readonly solana?: string
}

export function registerStore(program: Command): void {
  const store = program.command('store').description('Sellers of this gateway.')
  store
    .command('create')
    .description('Open a store as the operator and print its API key, once.')
    .argument('<username>', '3 to 32 characters: a-z, 0-9 and _')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--name <text>', 'display name')
    .option('--base <address>', "the store's wallet on Base: where its sales are paid to")
    .option('--solana <address>', "the store's wallet on Solana")
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
Works while the gateway runs. Sellers elsewhere open their store by themselves, with a wallet's signature: see /docs.

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
    .description('Set the wallets that a store is paid to, as the operator: no wallet has to sign.')
    .argument('<username>', 'the store')
    .option('-c, --config <file>', 'configuration file', 'tollgate.yaml')
    .option('--base <address>', 'the wallet on Base, or none to take it away')
    .option('--solana <address>', 'the wallet on Solana, or none to take it away')
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
Works while the gateway runs: the new wallets are offered within a second. A chain that is not named stays as it is. Make
sure that it is the seller who asks: sellers change their wallets by themselves, signed by the wallet that signs in
(POST /api/v1/profile/payout/nonce). This is for one who lost that wallet, or never had one.

Example:
  tollgate store payout alice --base 0xNewWallet --solana none`,
    )
    .action(async (username: string, flags: StoreFlags) => {
      const { config, base, solana } = flags
      const output = outputOf(flags)
      try {
        const { setPayout } = await import('../runtime/setPayout.ts')
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
  return [`The store ${username} is paid to:`, line('base'), line('solana')].join('\n')
}
