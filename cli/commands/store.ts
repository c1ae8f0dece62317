import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'
import { storeText } from './init.ts'

interface StoreFlags {
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
    .addHelpText(
      'after',
      `
Works while the gateway runs. Sellers elsewhere open their store by themselves, with a wallet's signature: see /docs.

Example:
  tollgate store create alice --base 0xYourWallet`,
    )
    .action(async (username: string, { config, name, base, solana }: StoreFlags) => {
      const output = createOutput(process)
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
}
