/**
 * States the price of each request. The price is 0.001 USDC for each 100 characters of the body, and at least 0.01 USDC. The server
 * prints its address.
 *
 * PRICE_SECRET=whsec_… PORT=9000 node examples/price-server/index.ts
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

interface Facts {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  /** Null if there is no body, and for a body that is longer than 65,536 bytes or not UTF-8. */
  readonly body: string | null
  readonly bodyBytes: number
}

const { PRICE_SECRET, PORT = '0' } = process.env
if (!PRICE_SECRET)
  throw new Error(
    'Expected PRICE_SECRET in the environment. It is the priceSecret in the response that sets price.url.',
  )

const signature = new Webhook(PRICE_SECRET)

/** The price is computed as a whole number of the smallest unit, because fractions would be rounded. */
function priceOf({ body, bodyBytes }: Facts): string {
  const characters = body?.length ?? bodyBytes
  const micros = Math.max(10_000, Math.ceil(characters / 100) * 1_000)
  return `${Math.floor(micros / 1_000_000)}.${String(micros % 1_000_000).padStart(6, '0')}`
}

async function respond(request: IncomingMessage): Promise<{ status: number; body: string }> {
  const body = await text(request)
  try {
    signature.verify(body, request.headers as Record<string, string>)
  } catch {
    return { status: 401, body: '{}' }
  }
  return { status: 200, body: JSON.stringify({ amount: priceOf(JSON.parse(body) as Facts) }) }
}

const server = createServer(async (request, response) => {
  const { status, body } = await respond(request).catch(() => ({ status: 500, body: '{}' }))
  // For a minute, the gateway uses this price for equal requests without another request to this server.
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'max-age=60' }).end(body)
})
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
})
