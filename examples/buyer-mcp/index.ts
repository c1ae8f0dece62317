/**
 * Finds a link by the marketplace's MCP tools and buys one call of it: what an agent does, as a program.
 *
 *   MCP_URL=http://localhost:8080/mcp BUYER_KEY=0x… node examples/buyer-mcp/index.ts
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { privateKeyToAccount } from 'viem/accounts'

const { MCP_URL, BUYER_KEY, NETWORK = 'eip155:84532', QUERY = 'weather' } = process.env
if (!MCP_URL || !BUYER_KEY) throw new Error('Expected MCP_URL and BUYER_KEY in the environment.')

const account = privateKeyToAccount(BUYER_KEY as `0x${string}`)
// The network is fixed, so that a key for a test network never signs for another one.
const wallet = x402Client.fromConfig({
  schemes: [{ network: NETWORK as `eip155:${string}`, client: new ExactEvmScheme(account) }],
})
const client = new Client({ name: 'buyer', version: '1.0.0' })
await client.connect(new StreamableHTTPClientTransport(new URL(MCP_URL)) as Transport)

interface Called {
  readonly isError?: boolean
  // biome-ignore lint/suspicious/noExplicitAny: each tool has a result of its own
  readonly structuredContent?: any
  readonly _meta?: { readonly 'x402/payment-response'?: { readonly transaction: string } }
}
const call = async (name: string, args: Record<string, unknown>, payment?: unknown) =>
  (await client.callTool({
    name,
    arguments: args,
    ...(payment !== undefined && { _meta: { 'x402/payment': payment } }),
  })) as Called

// Only paid links, so that there is something to pay.
const found = await call('search_links', { q: QUERY, minPrice: '0.000001', maxPrice: '0.05', limit: 1 })
const link: string | undefined = found.structuredContent.results[0]?.url
if (link === undefined) throw new Error(`No paid link found for ${QUERY}.`)

// The first call of a paid link returns its offer. The same call with the signed payment buys.
const offer = await call('call_link', { link })
const isOffer = offer.isError && offer.structuredContent?.x402Version === 2
const payment = isOffer && (await wallet.createPaymentPayload(offer.structuredContent as PaymentRequired))
const bought = payment ? await call('call_link', { link }, payment) : offer

const { response, purchaseId, error } = bought.structuredContent
const { transaction } = bought._meta?.['x402/payment-response'] ?? {}
console.log(JSON.stringify({ link, response, purchaseId, transaction, error }))
if (bought.isError) process.exitCode = 1
await client.close()
