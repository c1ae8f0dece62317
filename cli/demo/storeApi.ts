import type { DemoSeller } from '../../localnet/demoWallets.ts'

/** Opens a store with a wallet's signature, with payout wallets on both chains. @returns its API key */
export async function signUpSeller(
  baseUrl: string,
  seller: DemoSeller,
  names: { readonly username: string; readonly displayName: string },
): Promise<string> {
  const identity = { address: seller.evmAddress, chain: 'base' }
  const { message } = await callApi(baseUrl, 'POST', '/api/agent/auth/nonce', identity)
  const signature = await seller.signMessage(message)
  const signup = { ...identity, message, signature, ...names }
  const { apiKey } = await callApi(baseUrl, 'POST', '/api/agent/signup', signup)
  const payout = { solana: seller.solanaAddress }
  const text = await callApi(baseUrl, 'POST', '/api/v1/profile/payout/nonce', { payout }, apiKey)
  const payoutProof = { message: text.message, signature: await seller.signMessage(text.message) }
  await callApi(baseUrl, 'PATCH', '/api/v1/profile', { payout, payoutProof }, apiKey)
  return apiKey
}
/**
 * Sends a request to the marketplace API as a seller's program does.
 * @returns the response's data
 * @throws an error with the API's message
 */
export async function callApi(
  baseUrl: string,
  method: string,
  path: string,
  body: object,
  apiKey?: string,
): Promise<ApiData> {
  const response = await fetch(baseUrl + path, {
    method,
    headers: { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as { data?: object; error?: { message: string } }
  if (!response.ok)
    throw new Error(`${method} ${path} responded with ${response.status}: ${answer.error?.message}`)
  return (answer.data ?? answer) as ApiData
}

/** The fields of responses that the demo reads. Each response has some of them. */
export interface ApiData {
  readonly id: string
  readonly message: string
  readonly apiKey: string
  readonly fullUrl: string
  readonly price: string
  readonly checkoutUrl: string
}
