import type { ChainFacts } from '../effects/assets.ts'
import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { Decoded } from '../effects/effect.ts'
import { VaultError } from '../errors/error.ts'
import type { KeyInfo } from '../ports/keyring.ts'
import type { Vault } from '../ports/vault.ts'
import type { VaultDeps } from './deps.ts'

export interface ChainAccount {
  readonly facts: ChainFacts
  readonly plugin: ChainPlugin
  readonly key: KeyInfo
  /** True on a test chain whose key is also used with real money. See `sharedKeyRisk`. */
  readonly isShared: boolean
}

/** The chain that a request names, with its plugin and the vault's account. @throws `VALIDATION_ERROR` */
export function accountOn(
  { enabled, chains, vault, assets }: Pick<VaultDeps, 'enabled' | 'chains' | 'vault' | 'assets'>,
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

/** The key of the vault's account on a chain. */
export function keyOn({ keys }: Vault, { family, isTest }: ChainFacts): KeyInfo {
  return keys.default(family === 'solana' ? 'solana' : 'evm', isTest)
}

interface SharedKeyRisk {
  /** Why no rule may approve the request. */
  readonly reasons: readonly string[]
  readonly warnings: readonly string[]
}

const none: SharedKeyRisk = { reasons: [], warnings: [] }

/**
 * Whether a test chain's request could also be used on a chain with real money. A rule for a test chain must not approve such a
 * request. EVM transactions, and typed data with a chain in its domain, are valid on one chain only (EIP-155, EIP-712). Solana
 * transactions and messages are valid on several.
 */
export function sharedKeyRisk({ facts, isShared }: ChainAccount, decoded: Decoded): SharedKeyRisk {
  if (!isShared) return none
  const isBound = facts.family === 'eip155' && decoded.kind !== 'message' && !decoded.isOpaque
  if (isBound) return none
  return {
    reasons: [`The key that signs for ${facts.title} here also holds real money.`],
    warnings: [
      `What is signed here may be used where money is real, too: ${decoded.from} is not an address of ${facts.title} alone.`,
    ],
  }
}
