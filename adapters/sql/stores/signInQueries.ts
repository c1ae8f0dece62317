import type { Kysely } from 'kysely'
import type { SignInNonce } from '../../../core/domain/store.ts'
import type { Schema } from '../schema.ts'

/** What the port SignInNonces asks a database for, for whoever has one to run it. */
export const signInQueries = (query: Kysely<Schema>) => ({
  add: ({ nonce, chain, address, message, expiresAtMs }: SignInNonce) =>
    query.insertInto('sign_in_nonces').values({ nonce, chain, address, message, expires_at_ms: expiresAtMs }),

  take: (nonce: string) => query.deleteFrom('sign_in_nonces').where('nonce', '=', nonce).returningAll(),

  rememberSignup: (messageHash: string, storeId: string, expiresAtMs: number) =>
    query
      .insertInto('signups')
      .values({ message_hash: messageHash, store_id: storeId, expires_at_ms: expiresAtMs })
      .onConflict((c) => c.column('message_hash').doNothing()),

  signupOf: (messageHash: string, nowMs: number) =>
    query
      .selectFrom('signups')
      .select('store_id')
      .where('message_hash', '=', messageHash)
      .where('expires_at_ms', '>', nowMs),
})

export const toSignInNonce = (row: Schema['sign_in_nonces']): SignInNonce => ({
  nonce: row.nonce,
  chain: row.chain as SignInNonce['chain'],
  address: row.address,
  message: row.message,
  expiresAtMs: row.expires_at_ms,
})
