import { tooManyKeys } from '../../../core/ports/refusals.ts'
import type { ApiKeys } from '../../../core/ports/store/stores.ts'
import type { Access } from './access.ts'
import type { Tables } from './memory.ts'

const TOUCH_EVERY_MS = 60_000

/** API keys in memory: their HMACs, never the keys. */
export function createApiKeys({ keys }: Tables, { read, write }: Access): ApiKeys {
  const ofStore = (storeId: string) =>
    keys
      .values()
      .filter((key) => key.storeId === storeId)
      .sort((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))

  return {
    add: (key, maxActive) =>
      write('flushed', () => {
        if (ofStore(key.storeId).filter((one) => one.isActive).length >= maxActive)
          throw tooManyKeys(maxActive)
        keys.set(key.id, key)
      }),

    ofStore: (storeId) => read(() => ofStore(storeId)),
    byHash: (keyHash) => read(() => keys.values().find((key) => key.keyHash === keyHash)),

    revoke: (storeId, id, atMs) =>
      write('flushed', () => {
        const key = keys.get(id)
        if (key?.storeId !== storeId) return undefined
        const revoked = { ...key, isActive: false, revokedAtMs: key.revokedAtMs ?? atMs }
        keys.set(id, revoked)
        return revoked
      }),

    touch: (id, atMs) =>
      write('visible', () => {
        const key = keys.get(id)
        if (key === undefined) return
        if (key.lastUsedAtMs !== null && atMs - key.lastUsedAtMs < TOUCH_EVERY_MS) return
        keys.set(id, { ...key, lastUsedAtMs: atMs })
      }),
  }
}
