import { createHash, sign, verify } from 'node:crypto'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import {
  type ChannelName,
  type KeyPair,
  lengthPrefixed,
  privateKeyObject,
  protocol,
  publicKeyObject,
  uint64,
} from './suite.ts'

/**
 * The key for which one session's calls are sealed. Its private half exists only in the vault's memory and only during the
 * session. If the vault's static keys leak later, they cannot decrypt recorded calls.
 */
export interface SessionKeyStatement extends ChannelName {
  readonly route: Buffer
  readonly publicKey: Buffer
  /** Milliseconds of the vault's clock. */
  readonly expiresAtMs: number
}

/** The vault's next static key. Its number only increases, so a replayed older statement cannot restore an old key. */
export interface RolloverStatement {
  readonly vaultId: string
  readonly publicKey: Buffer
  readonly generation: number
}

/** Signs with the vault's Ed25519 key, which every proxy stored when it paired. */
export const signSessionKey = (statement: SessionKeyStatement, signing: KeyPair): Buffer =>
  sign(null, sessionKeyBytes(statement), privateKeyObject('Ed25519', signing))

export const isSessionKeySigned = (statement: SessionKeyStatement, signature: Buffer, by: Buffer): boolean =>
  verify(null, sessionKeyBytes(statement), publicKeyObject('Ed25519', by), signature)

export const signRollover = (statement: RolloverStatement, signing: KeyPair): Buffer =>
  sign(null, rolloverBytes(statement), privateKeyObject('Ed25519', signing))

export const isRolloverSigned = (statement: RolloverStatement, signature: Buffer, by: Buffer): boolean =>
  verify(null, rolloverBytes(statement), publicKeyObject('Ed25519', by), signature)

const sessionKeyBytes = ({
  vaultId,
  serviceId,
  route,
  publicKey,
  expiresAtMs,
}: SessionKeyStatement): Buffer =>
  lengthPrefixed(protocol, 'session key', vaultId, serviceId, route, publicKey, uint64(expiresAtMs))

const rolloverBytes = ({ vaultId, publicKey, generation }: RolloverStatement): Buffer =>
  lengthPrefixed(protocol, 'rollover', vaultId, publicKey, uint64(generation))

/** The values that both sides have at the end of a pairing. */
export interface PairingTranscript extends ChannelName {
  readonly route: Buffer
  /** The vault's HPKE key from the command, and its signing key from the vault. */
  readonly vaultKey: Buffer
  readonly signingKey: Buffer
  readonly proxyKey: Buffer
  readonly proxyNonce: Buffer
  readonly vaultNonce: Buffer
}

/**
 * Four words that are the same on both sides only if both saw the same pairing. An attacker in the middle has one guess in
 * 2^44. The proxy commits to its nonce ({@link commitmentTo}) before it receives the vault's nonce, so neither side can search
 * for keys that give chosen words.
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

/** The hash of its nonce that the proxy sends first. */
export const commitmentTo = (proxyNonce: Buffer): Buffer =>
  createHash('sha256')
    .update(lengthPrefixed(protocol, 'commitment', proxyNonce))
    .digest()
