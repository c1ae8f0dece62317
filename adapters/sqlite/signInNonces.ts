import type { SignInNonces } from '../../core/ports/store/stores.ts'
import { signInQueries, toSignInNonce } from '../sql/stores/signInQueries.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'

/** Sign-in texts and finished sign-ups in SQLite. What has expired goes when the next one comes. */
export function createSignInNonces({ query, writer, clock }: Database): SignInNonces {
  const queries = signInQueries(query)
  return {
    async add(nonce) {
      const forget = query.deleteFrom('sign_in_nonces').where('expires_at_ms', '<', clock.now())
      await writer.write('runAll', [compiled(forget), compiled(queries.add(nonce))])
    },

    async take(nonce) {
      const row = (await writer.write('run', compiled(queries.take(nonce)))).rows[0]
      return row && toSignInNonce(row as unknown as Parameters<typeof toSignInNonce>[0])
    },

    async rememberSignup(messageHash, storeId, expiresAtMs) {
      const forget = query.deleteFrom('signups').where('expires_at_ms', '<', clock.now())
      const add = queries.rememberSignup(messageHash, storeId, expiresAtMs)
      await writer.write('runAll', [compiled(forget), compiled(add)])
    },

    async signupOf(messageHash, nowMs) {
      return (await queries.signupOf(messageHash, nowMs).executeTakeFirst())?.store_id
    },
  }
}
