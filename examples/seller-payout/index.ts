/**
 * Changes the payout wallet of a store on Base. The API key alone is not enough: the wallet that signed up
 * signs once.
 *
 * GATEWAY_URL=http://localhost:8080 TOLLGATE_API_KEY=tg_live_… SELLER_KEY=0x… NEW_WALLET=0x… \
 * node examples/seller-payout/index.ts
 */
import { privateKeyToAccount } from 'viem/accounts'

interface Profile {
  readonly payout: {
    readonly base: string | null
    readonly solana: string | null
    readonly changedAt: string
  }
}

const { GATEWAY_URL, TOLLGATE_API_KEY, SELLER_KEY, NEW_WALLET } = process.env
if (!GATEWAY_URL || !TOLLGATE_API_KEY || !SELLER_KEY || !NEW_WALLET)
  throw new Error('Expected GATEWAY_URL, TOLLGATE_API_KEY, SELLER_KEY and NEW_WALLET in the environment.')

const wallet = privateKeyToAccount(SELLER_KEY as `0x${string}`)
const payout = { base: NEW_WALLET }

// 1. A text that says what changes: which store, which chain, from which wallet to which. Read it before you
// sign.
const text = await send<{ message: string }>('POST', '/api/v1/profile/payout/nonce', { payout })
console.error(text.message)

// 2. The same payout again, with the text and its signature: valid for this change, once, for five minutes.
const payoutProof = { message: text.message, signature: await wallet.signMessage(text) }
const profile = await send<Profile>('PATCH', '/api/v1/profile', { payout, payoutProof })
console.log(JSON.stringify(profile.payout))

/** Calls the marketplace API. /openapi.json has the schemas of its responses. */
async function send<Data>(method: string, path: string, body: object): Promise<Data> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${TOLLGATE_API_KEY}` }
  const response = await fetch(GATEWAY_URL + path, { method, headers, body: JSON.stringify(body) })
  const answer = (await response.json()) as { data: Data; error: { code: string; message: string } }
  if (!response.ok) throw new Error(`${path} failed with ${answer.error.code}: ${answer.error.message}`)
  return answer.data
}
