import { createHash } from 'node:crypto'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import { lengthPrefixed } from './lengthPrefixed.ts'
import { type ChannelName, protocol } from './suite.ts'

/** Everything that both sides believe about a pairing when it ends. */
export interface PairingTranscript extends ChannelName {
  readonly route: Buffer
  /** The vault's HPKE key, as the command named it, and its signing key, as the vault told it. */
  readonly vaultKey: Buffer
  readonly signingKey: Buffer
  readonly proxyKey: Buffer
  readonly proxyNonce: Buffer
  readonly vaultNonce: Buffer
}

/**
 * Four words that are the same on both sides exactly when both saw the same pairing. Someone in the middle has one guess
 * in 2^44: the proxy commits to its nonce ({@link commitmentTo}) before it learns the vault's, so no side can search for
 * keys that give wanted words.
 */
export function pairingPhrase(transcript: PairingTranscript): string {
  const { vaultId, serviceId, route, vaultKey, signingKey, proxyKey, proxyNonce, vaultNonce } = transcript
  const parts = [vaultId, serviceId, route, vaultKey, signingKey, proxyKey, proxyNonce, vaultNonce]
  const hash = createHash('sha256')
    .update(lengthPrefixed(protocol, 'phrase', ...parts))
    .digest()
  const bits = hash.readBigUInt64BE()
  return [0n, 1n, 2n, 3n].map((i) => wordlist[Number((bits >> (53n - 11n * i)) & 2047n)]!).join(' ')
}

/** What the proxy sends first of its nonce. */
export const commitmentTo = (proxyNonce: Buffer): Buffer =>
  createHash('sha256')
    .update(lengthPrefixed(protocol, 'commitment', proxyNonce))
    .digest()
