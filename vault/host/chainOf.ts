import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { ChainFacts } from '../effects/chains.ts'
import { VaultError } from '../errors/error.ts'
import type { KeyInfo } from '../ports/keyring.ts'
import type { Vault } from '../ports/vault.ts'
import type { VaultParts } from './parts.ts'

export interface ChainAccount {
  readonly facts: ChainFacts
  readonly plugin: ChainPlugin
  readonly key: KeyInfo
  /** True on a test chain whose key also holds real money; see `sharedKeyRisk`. */
  readonly isShared: boolean
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
  if (facts === undefined || plugin === undefined) throw notOffered(enabled, facts)
  const key = keyOn(vault, facts)
  return { facts, plugin, key, isShared: facts.isTest && vault.keys.isShared(key) }
}

function notOffered(enabled: readonly string[], facts: ChainFacts | undefined): VaultError {
  const needs = facts?.isTest ? ` ${facts.name} is offered by a vault that runs with --testnets.` : ''
  const message = `Expected one of ${enabled.join(', ')}.${needs}`
  return new VaultError('VALIDATION_ERROR', `chain: ${message}`, { details: [{ path: 'chain', message }] })
}

/** The key of our account on a chain. */
export function keyOn({ keys }: Vault, { family, isTest }: ChainFacts): KeyInfo {
  return keys.default(family === 'solana' ? 'solana' : 'evm', isTest)
}
