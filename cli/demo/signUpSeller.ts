import type { DemoSeller } from '../../localnet/demoSeller.ts'
import { callApi } from './callApi.ts'

/** Opens a store by a wallet's signature, with a payout wallet on both chains. @returns its API key */
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
