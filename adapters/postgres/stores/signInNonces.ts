import type { SignInNonces } from '../../../core/ports/store/stores.ts'
import { signInQueries, toSignInNonce } from '../../sql/stores/signInQueries.ts'
import type { Database } from '../database.ts'
import { transact } from '../transact.ts'

/** Sign-in texts and finished sign-ups in PostgreSQL. What has expired goes when the next one comes. */
export function createSignInNonces(database: Pick<Database, 'query' | 'clock'>): SignInNonces {
  const { query, clock } = database
  const queries = signInQueries(query)
  return {
    async add(nonce) {
      await transact(database, async (transaction) => {
        // What somebody else takes away at this moment is not waited for.
        const expired = transaction
          .selectFrom('sign_in_nonces')
          .select('nonce')
          .where('expires_at_ms', '<', clock.now())
          .forUpdate()
          .skipLocked()
        await transaction.deleteFrom('sign_in_nonces').where('nonce', 'in', expired).execute()
        await signInQueries(transaction).add(nonce).execute()
      })
    },

    async take(nonce) {
      const row = await queries.take(nonce).executeTakeFirst()
      return row && toSignInNonce(row)
    },

    async rememberSignup(messageHash, storeId, expiresAtMs) {
      await transact(database, async (transaction) => {
        const expired = transaction
          .selectFrom('signups')
          .select('message_hash')
          .where('expires_at_ms', '<', clock.now())
          .forUpdate()
          .skipLocked()
        await transaction.deleteFrom('signups').where('message_hash', 'in', expired).execute()
        await signInQueries(transaction).rememberSignup(messageHash, storeId, expiresAtMs).execute()
      })
    },

    async signupOf(messageHash, nowMs) {
      return (await queries.signupOf(messageHash, nowMs).executeTakeFirst())?.store_id
    },
  }
}
