import type { SignInNonce } from '../../core/domain/store.ts'
import type { SignInNonces } from '../../core/ports/stores.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'

/** Sign-in texts and finished sign-ups in SQLite. What has expired goes when the next one comes. */
export function createSignInNonces({ query, writer, clock }: Database): SignInNonces {
  return {
    async add({ nonce, chain, address, message, expiresAtMs }) {
      const forget = query.deleteFrom('sign_in_nonces').where('expires_at_ms', '<', clock.now())
      const add = query
        .insertInto('sign_in_nonces')
        .values({ nonce, chain, address, message, expires_at_ms: expiresAtMs })
      await writer.write('runAll', [compiled(forget), compiled(add)])
    },

    async take(nonce) {
      const take = query.deleteFrom('sign_in_nonces').where('nonce', '=', nonce).returningAll()
      const row = (await writer.write('run', compiled(take))).rows[0]
      if (row === undefined) return undefined
      return {
        nonce: String(row['nonce']),
        chain: row['chain'] as SignInNonce['chain'],
        address: String(row['address']),
        message: String(row['message']),
        expiresAtMs: Number(row['expires_at_ms']),
      }
    },

    async rememberSignup(messageHash, storeId, expiresAtMs) {
      const forget = query.deleteFrom('signups').where('expires_at_ms', '<', clock.now())
      const add = query
        .insertInto('signups')
        .values({ message_hash: messageHash, store_id: storeId, expires_at_ms: expiresAtMs })
        .onConflict((c) => c.column('message_hash').doNothing())
      await writer.write('runAll', [compiled(forget), compiled(add)])
    },

    async signupOf(messageHash, nowMs) {
      const row = await query
        .selectFrom('signups')
        .select('store_id')
        .where('message_hash', '=', messageHash)
        .where('expires_at_ms', '>', nowMs)
        .executeTakeFirst()
      return row?.store_id
    },
  }
}
