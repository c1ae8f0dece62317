import type { DemoSeller } from '../../localnet/demoSeller.ts'
import type { SampleSeller } from './sampleSeller.ts'

export interface OpenedStore {
  readonly apiKey: string
  readonly link: { readonly url: string; readonly price: string }
  readonly dearLink: { readonly url: string; readonly price: string }
  readonly freeLink: { readonly url: string }
  /** `?address=` of a wallet gets test money. */
  readonly faucetLink: { readonly url: string }
}

/** Opens a store the way every seller does: by the marketplace API, with a wallet's signature. */
export async function openStore(
  baseUrl: string,
  seller: DemoSeller,
  sample: SampleSeller,
): Promise<OpenedStore> {
  const identity = { address: seller.evmAddress, chain: 'base' }
  const { message } = await call(baseUrl, 'POST', '/api/agent/auth/nonce', identity)
  const signature = await seller.signMessage(message)
  const signup = { ...identity, message, signature, username: 'demo', displayName: 'Demo seller' }
  const { apiKey } = await call(baseUrl, 'POST', '/api/agent/signup', signup)
  const payout = { solana: seller.solanaAddress }
  const text = await call(baseUrl, 'POST', '/api/v1/profile/payout/nonce', { payout }, apiKey)
  const payoutProof = { message: text.message, signature: await seller.signMessage(text.message) }
  await call(baseUrl, 'PATCH', '/api/v1/profile', { payout, payoutProof }, apiKey)
  const weather = {
    url: sample.url,
    title: 'Weather',
    description: 'The weather of a city, now.',
    isPublic: true,
  }
  const link = await call(
    baseUrl,
    'POST',
    '/api/v1/links',
    { ...weather, slug: 'weather', price: '0.01' },
    apiKey,
  )
  const dear = await call(
    baseUrl,
    'POST',
    '/api/v1/links',
    { ...weather, title: 'Weather, dear', slug: 'forecast', price: '0.25' },
    apiKey,
  )
  const free = await call(
    baseUrl,
    'POST',
    '/api/v1/links',
    { ...weather, title: 'Weather, free', slug: 'hello' },
    apiKey,
  )
  const faucet = await call(
    baseUrl,
    'POST',
    '/api/v1/links',
    {
      url: `${sample.url}/faucet`,
      title: 'Faucet',
      description: 'Test money of this machine.',
      slug: 'faucet',
    },
    apiKey,
  )
  return {
    apiKey,
    link: { url: link.fullUrl, price: link.price },
    dearLink: { url: dear.fullUrl, price: dear.price },
    freeLink: { url: free.fullUrl },
    faucetLink: { url: faucet.fullUrl },
  }
}

async function call(baseUrl: string, method: string, path: string, body: object, apiKey?: string) {
  const response = await fetch(baseUrl + path, {
    method,
    headers: { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as { data?: Record<string, string>; error?: { message: string } }
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${answer.error?.message}`)
  return (answer.data ?? answer) as Record<string, string> & {
    message: string
    apiKey: string
    fullUrl: string
    price: string
  }
}
