import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { ChainFacts } from '../effects/chains.ts'
import type { Decoded } from '../effects/decoded.ts'
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

/** What a signature of a test chain means where its key also holds real money. */
interface SharedKeyRisk {
  /** Why no rule may approve it. */
  readonly reasons: readonly string[]
  readonly warnings: readonly string[]
}

const none: SharedKeyRisk = { reasons: [], warnings: [] }

/**
 * Whether a request of a test chain could be used where money is real. A rule for a test chain is written for play money,
 * so it must not approve one. EVM transactions, and typed data with a chain in its domain, are bound to their chain by
 * their own bytes (EIP-155, EIP-712); anything on Solana and any message is not.
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
