import { timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ApiKey } from '../../core/domain/store.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import type { ApiKeys } from '../../core/ports/store/stores.ts'
import { isApiKeyForm } from './apiKey.ts'

/** How long what another process has revoked may still read here; it changes nothing (`refuseEnded`). */
const CACHE_MS = 3_000
const CACHED_KEYS = 10_000
/** `lastUsedAt` is written at most this often per key. */
const TOUCH_EVERY_MS = 60_000

/** Knows API keys by their text. */
export interface KeyRing {
  /** The HMAC under which a key is stored, hex. */
  hashOf(keyText: string): string
  /** The active key with this text; undefined for anything else. */
  find(keyText: string): Promise<ApiKey | undefined>
  /** Drops a key at once, a look-up under way included. Call it after a revocation. */
  forget(keyHash: string): void
}

/** Makes a key ring that keeps what it looked up, hits and misses, for three seconds. */
export function createKeyRing(ports: { keys: ApiKeys; sealer: Sealer; clock: Clock; log: Log }): KeyRing {
  const { keys, sealer, clock, log } = ports
  const found = new LRUCache<string, { readonly key: ApiKey | null }>({ max: CACHED_KEYS, ttl: CACHE_MS })
  const touchedAtMs = new LRUCache<string, number>({ max: CACHED_KEYS })
  let revocations = 0

  async function lookUp(hash: string): Promise<ApiKey | null> {
    const cached = found.get(hash)
    if (cached !== undefined) return cached.key
    const before = revocations
    const key = (await keys.byHash(hash)) ?? null
    // An answer that was read before a revocation must not outlive it.
    if (before === revocations) found.set(hash, { key })
    return key
  }

  function touch(id: string): void {
    const nowMs = clock.now()
    const last = touchedAtMs.get(id)
    if (last !== undefined && Math.abs(nowMs - last) < TOUCH_EVERY_MS) return
    touchedAtMs.set(id, nowMs)
    keys.touch(id, nowMs).catch((err) => log.warn({ err, keyId: id }, 'lastUsedAt was not written'))
  }

  const hashOf = (keyText: string): string => sealer.mac('api-key', keyText).toString('hex')

  return {
    hashOf,
    async find(keyText) {
      if (!isApiKeyForm(keyText)) return
      const hash = hashOf(keyText)
      const key = await lookUp(hash)
      if (key === null || !key.isActive || !isSame(key.keyHash, hash)) return
      touch(key.id)
      return key
    },
    forget(keyHash) {
      revocations++
      found.delete(keyHash)
    },
  }
}

/** The database compares too, but not in constant time. */
function isSame(a: string, b: string): boolean {
  const left = Buffer.from(a)
  const right = Buffer.from(b)
  return left.length === right.length && timingSafeEqual(left, right)
}
