import { randomInt, timingSafeEqual } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import type { ApiKey } from '../../core/domain/store.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import type { ApiKeys } from '../../core/ports/store/stores.ts'

/**
 * How long this cache may contain a key that another process has revoked, in ms. The key cannot change anything meanwhile
 * (`refuseEnded`).
 */
const CACHE_MS = 3_000
const CACHED_KEYS = 10_000
/** Shortest time between two writes of a key's `lastUsedAt`, in ms. */
const TOUCH_EVERY_MS = 60_000

/** Looks up API keys by their text. */
export interface KeyRing {
  /** The HMAC of a key in hex. The database stores the key under it. */
  hashOf(keyText: string): string
  /** The active key with this text. Undefined if there is none. */
  find(keyText: string): Promise<ApiKey | undefined>
  /** Drops a key from the cache at once, and discards a read in progress. Call it after a revocation. */
  forget(keyHash: string): void
}

/** Creates a key ring that caches hits and misses for three seconds. */
export function createKeyRing(ports: { keys: ApiKeys; sealer: Sealer; clock: Clock; log: Log }): KeyRing {
  const { keys, sealer, clock, log } = ports
  const found = new LRUCache<string, { readonly key: ApiKey | null }>({ max: CACHED_KEYS, ttl: CACHE_MS })
  const touchedAtMs = new LRUCache<string, number>({ max: CACHED_KEYS })
  let revocations = 0

  async function findByHash(hash: string): Promise<ApiKey | null> {
    const cached = found.get(hash)
    if (cached !== undefined) return cached.key
    const before = revocations
    const key = (await keys.byHash(hash)) ?? null
    // A result that was read before a revocation must not be cached after it.
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
      const key = await findByHash(hash)
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

/** Compares in constant time, because the database does not. */
function isSame(a: string, b: string): boolean {
  const left = Buffer.from(a)
  const right = Buffer.from(b)
  return left.length === right.length && timingSafeEqual(left, right)
}

const prefix = 'tg_live_'
const secretChars = 32
const checksumChars = 6
/**
 * Length of the shown beginning. It has `tg_live_` and four characters of the secret, which distinguish keys but do not help to
 * guess one.
 */
const shownChars = prefix.length + 4
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = new RegExp(`^${prefix}[0-9A-Za-z]{${secretChars + checksumChars}}$`)

/** Creates an API key. It has `tg_live_`, 32 base62 characters (190 random bits) and 6 characters of checksum. */
export function createApiKey(): string {
  return withChecksum(prefix + Array.from({ length: secretChars }, () => alphabet[randomInt(62)]).join(''))
}

/**
 * The API key for 32 bytes. The same bytes give the same key. 2^256 is no multiple of 62^32, so some keys are slightly more likely,
 * by less than one part in 2^65.
 *
 * @param bytes 32 bytes that only the server can compute, such as a MAC
 */
export function apiKeyFrom(bytes: Uint8Array): string {
  return withChecksum(prefix + base62(BigInt(`0x${Buffer.from(bytes).toString('hex')}`), secretChars))
}

/** Whether a text has the format of a key. The check saves database queries for mistyped, cut off or invented keys. */
export function isApiKeyForm(text: string): boolean {
  return form.test(text) && withChecksum(text.slice(0, -checksumChars)) === text
}

/** The beginning of a key. It is stored and shown. */
export const prefixOf = (key: string): string => key.slice(0, shownChars)

const withChecksum = (body: string): string => body + base62(BigInt(crc32(body)), checksumChars)

function base62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = alphabet[Number(rest % 62n)] + text
  return text
}
