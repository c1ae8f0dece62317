/**
 * Buys one call of a paid link with the public x402 client: `fetch` that pays a 402 by itself.
 *
 *   LINK_URL=http://localhost:8080/api/link/demo/weather BUYER_KEY=0x… node examples/buyer-fetch/index.ts
 */
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const { LINK_URL, BUYER_KEY, NETWORK = 'eip155:84532' } = process.env
if (!LINK_URL || !BUYER_KEY) throw new Error('Expected LINK_URL and BUYER_KEY in the environment.')

const account = privateKeyToAccount(BUYER_KEY as `0x${string}`)
// The network is fixed, so that a key for a test network never signs for another one.
const payingFetch = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network: NETWORK as `eip155:${string}`, client: new ExactEvmScheme(account) }],
})

const response = await payingFetch(LINK_URL)
const receipt = response.headers.get('payment-response')
const answer = (await response.json()) as { data?: unknown; _svc?: { purchaseId: string }; error?: unknown }
console.log(
  JSON.stringify({
    status: response.status,
    // The seller's response is in `data`, the purchase beside it.
    data: answer.data,
    purchaseId: answer._svc?.purchaseId,
    transaction: receipt && JSON.parse(atob(receipt)).transaction,
    error: answer.error,
  }),
)
if (!response.ok) process.exitCode = 1
