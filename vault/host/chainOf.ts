import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { ChainFacts } from '../effects/chains.ts'
import { VaultError } from '../errors/error.ts'
import type { KeyInfo } from '../ports/keyring.ts'
import type { VaultParts } from './parts.ts'

export interface ChainAccount {
  readonly facts: ChainFacts
  readonly plugin: ChainPlugin
  readonly key: KeyInfo
}

/** The chain that a request names, its plugin and our account there. @throws `VALIDATION_ERROR` */
export function accountOn(
  { enabled, chains, vault, assets }: Pick<VaultParts, 'enabled' | 'chains' | 'vault' | 'assets'>,
  name: unknown,
): ChainAccount {
  const facts = assets.chains.named(name)
  const plugin =
    facts === undefined || !enabled.includes(facts.name)
      ? undefined
      : chains.find((one) => one.family === facts.family)
  if (facts === undefined || plugin === undefined)
    throw new VaultError('VALIDATION_ERROR', `chain: Expected one of ${enabled.join(', ')}.`, {
      details: [{ path: 'chain', message: `Expected one of ${enabled.join(', ')}.` }],
    })
  return { facts, plugin, key: vault.keys.default(facts.family === 'solana' ? 'solana' : 'evm') }
}
