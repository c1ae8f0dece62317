import type { SignInNonce } from '../../../core/domain/store.ts'
import type { SignInNonces } from '../../../core/ports/store/stores.ts'
import type { Schema } from '../sql/schema.ts'
import { type CallsOf, free, type Reads, row, type Steps, type Tx } from './transaction.ts'

export const signInNonceWrites = {
  *add(tx: Tx, { nonce, chain, address, message, expiresAtMs }: SignInNonce): Steps<void> {
    yield* tx.run`DELETE FROM sign_in_nonces
      WHERE nonce IN (SELECT nonce FROM sign_in_nonces WHERE expires_at_ms < ${tx.nowMs} ${free})`
    yield* tx.run`INSERT INTO sign_in_nonces ${row({ nonce, chain, address, message, expires_at_ms: expiresAtMs })}`
  },

  *take(tx: Tx, nonce: string): Steps<SignInNonce | undefined> {
    const taken = yield* tx.one<Schema['sign_in_nonces']>`
      DELETE FROM sign_in_nonces WHERE nonce = ${nonce} RETURNING *`
    if (taken === undefined) return undefined
    const { chain, address, message, expires_at_ms: expiresAtMs } = taken
    return { nonce, chain: chain as SignInNonce['chain'], address, message, expiresAtMs }
  },

  *use(tx: Tx, nonce: string, keptUntilMs: number): Steps<boolean> {
    yield* tx.run`DELETE FROM used_sign_ins
      WHERE nonce IN (SELECT nonce FROM used_sign_ins WHERE kept_until_ms < ${tx.nowMs} ${free})`
    const columns = { nonce, kept_until_ms: keptUntilMs }
    return (yield* tx.run`INSERT INTO used_sign_ins ${row(columns)} ON CONFLICT DO NOTHING`) === 1
  },

  *rememberSignup(tx: Tx, messageHash: string, storeId: string, expiresAtMs: number): Steps<void> {
    yield* tx.run`DELETE FROM signups
      WHERE message_hash IN (SELECT message_hash FROM signups WHERE expires_at_ms < ${tx.nowMs} ${free})`
    const columns = { message_hash: messageHash, store_id: storeId, expires_at_ms: expiresAtMs }
    yield* tx.run`INSERT INTO signups ${row(columns)} ON CONFLICT DO NOTHING`
  },
}

/** Sign-in messages, used sign-ins and finished sign-ups. Each write also deletes expired rows. */
export function createSignInNonces(
  { signInNonces }: { readonly signInNonces: CallsOf<typeof signInNonceWrites> },
  reads: Reads,
): SignInNonces {
  return {
    ...signInNonces,

    async signupOf(messageHash, nowMs) {
      const signup = await reads.one<{ store_id: string }>`
        SELECT store_id FROM signups WHERE message_hash = ${messageHash} AND expires_at_ms > ${nowMs}`
      return signup?.store_id
    },
  }
}
