import { sign, verify } from 'node:crypto'
import { type KeyPair, privateKeyObject, publicKeyObject } from './keyPair.ts'
import { lengthPrefixed, uint64 } from './lengthPrefixed.ts'
import { type ChannelName, protocol } from './suite.ts'

/**
 * The key that one session's calls are sealed to. Its private half lives in the vault's memory only and dies with the
 * session: whoever takes the vault's static keys later can not read recorded calls.
 */
export interface SessionKeyStatement extends ChannelName {
  readonly route: Buffer
  readonly publicKey: Buffer
  /** Milliseconds of the vault's clock. */
  readonly expiresAtMs: number
}

/** The vault's next static key. Its number only grows, so an old statement brings no old key back. */
export interface RolloverStatement {
  readonly vaultId: string
  readonly publicKey: Buffer
  readonly generation: number
}

/** Signs with the vault's Ed25519 key, which every proxy pinned when it paired. */
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
