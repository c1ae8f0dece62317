/**
 * Opens a store with a wallet's signature and puts an API behind a paid link. Nothing is paid and no form is filled in.
 *
 *   GATEWAY_URL=http://localhost:8080 SELLER_KEY=0x… API_URL=https://api.example.com/weather \
 *     node examples/seller-signup/index.ts
 */
import { privateKeyToAccount } from 'viem/accounts'

interface SignedUp {
  readonly store: { readonly username: string }
  readonly apiKey: string
}

interface Link {
  readonly fullUrl: string
  readonly price: string
}

const { GATEWAY_URL, SELLER_KEY, API_URL, PRICE = '0.01' } = process.env
if (!GATEWAY_URL || !SELLER_KEY || !API_URL)
  throw new Error('Expected GATEWAY_URL, SELLER_KEY and API_URL in the environment.')

const wallet = privateKeyToAccount(SELLER_KEY as `0x${string}`)
const identity = { address: wallet.address, chain: 'base' }

// 1. A text to sign. It contains this gateway, this wallet and a nonce that is valid for five minutes.
const { message } = await post<{ message: string }>('/api/agent/auth/nonce', identity)

// 2. The signature opens the store. Later, the same wallet gets another key of the same store.
const signature = await wallet.signMessage({ message })
const { store, apiKey } = await post<SignedUp>('/api/agent/signup', { ...identity, message, signature })

// 3. The link. Sales are paid to the wallet that signed.
const link = await post<Link>('/api/v1/links', { url: API_URL, title: 'Weather', price: PRICE }, apiKey)
console.log(JSON.stringify({ store: store.username, apiKey, link: link.fullUrl, price: link.price }))

/** Calls the marketplace API. /openapi.json has the schemas of its responses. */
async function post<Data>(path: string, body: object, key?: string): Promise<Data> {
  const response = await fetch(GATEWAY_URL + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as { data: Data; error: { code: string; message: string } }
  if (!response.ok) throw new Error(`${path} failed with ${answer.error.code}: ${answer.error.message}`)
  return answer.data
}
