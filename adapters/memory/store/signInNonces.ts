import type { Clock } from '../../../core/ports/clock.ts'
import type { SignInNonces } from '../../../core/ports/store/stores.ts'
import type { Access } from './access.ts'
import type { Table } from './journal.ts'
import type { Tables } from './memory.ts'

/** Sign-in texts and finished sign-ups in memory. What has expired goes when the next one comes. */
export function createSignInNonces(
  { nonces, signups }: Tables,
  { read, write }: Access,
  clock: Clock,
): SignInNonces {
  const forgetExpired = (table: Table<string, { readonly expiresAtMs: number }>) => {
    for (const key of table.keys()) if (table.get(key)!.expiresAtMs < clock.now()) table.delete(key)
  }

  return {
    add: (nonce) =>
      write('flushed', () => {
        forgetExpired(nonces)
        nonces.set(nonce.nonce, nonce)
      }),

    take: (nonce) =>
      write('flushed', () => {
        const taken = nonces.get(nonce)
        nonces.delete(nonce)
        return taken
      }),

    rememberSignup: (messageHash, storeId, expiresAtMs) =>
      write('flushed', () => {
        forgetExpired(signups)
        if (!signups.has(messageHash)) signups.set(messageHash, { storeId, expiresAtMs })
      }),

    signupOf: (messageHash, nowMs) =>
      read(() => {
        const signup = signups.get(messageHash)
        return signup && signup.expiresAtMs > nowMs ? signup.storeId : undefined
      }),
  }
}
