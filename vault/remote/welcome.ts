import { signRollover, signSessionKey } from './channel/statements.ts'
import { type IdentityKey, signingPairOf, type VaultIdentity } from './identity.ts'
import type { LivePairing } from './livePairing.ts'

/** A new session's key, signed; and the newest static key, signed, for a proxy that still uses an older one. */
export function welcome(
  live: LivePairing,
  used: IdentityKey,
  identity: VaultIdentity,
  nowMs: number,
): object {
  const { vaultId, keys } = identity
  const signing = signingPairOf(identity)
  const { keys: session, expiresAtMs } = live.sessions.issue(nowMs)
  const { serviceId } = live.record
  const { publicKey } = session
  const signature = signSessionKey({ vaultId, serviceId, route: live.route, publicKey, expiresAtMs }, signing)
  const greeting = {
    status: 200,
    publicKey: publicKey.toString('base64'),
    expiresAtMs,
    signature: signature.toString('base64'),
  }
  const newest = keys[0]!
  if (used.generation === newest.generation) return greeting
  const { generation } = newest
  const next = { vaultId, publicKey: Buffer.from(newest.publicKey, 'base64'), generation }
  const rollover = {
    publicKey: newest.publicKey,
    generation,
    signature: signRollover(next, signing).toString('base64'),
  }
  return { ...greeting, rollover }
}
