/**
 * Sells a stream. The buyer is charged first (`settle: before`), and then gets every event immediately:
 * nothing is buffered or wrapped (`responseMode: raw`), and the purchase is in headers.
 *
 * GATEWAY_URL=… API_KEY=tg_live_… BUYER_KEY=0x… node examples/stream/index.ts
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const { GATEWAY_URL, API_KEY, BUYER_KEY, NETWORK = 'eip155:84532' } = process.env
if (!GATEWAY_URL || !API_KEY || !BUYER_KEY)
  throw new Error('Expected GATEWAY_URL, API_KEY and BUYER_KEY in the environment.')

// The seller's API: server-sent events, the second only after the first has arrived at the buyer.
let send: (word: string) => void = () => {}
let end: () => void = () => {}
const api = createServer((_req, res) => {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  send = (word) => void res.write(`data: ${word}\n\n`)
  end = () => void res.end()
  send('one')
})
await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${(api.address() as AddressInfo).port}/events`

const created = await fetch(`${GATEWAY_URL}/api/v1/links`, {
  method: 'POST',
  headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
  body: JSON.stringify({ url, title: 'Events', price: '0.02', settle: 'before', responseMode: 'raw' }),
})
const { data: link } = (await created.json()) as { data: { fullUrl: string } }

const client = new ExactEvmScheme(privateKeyToAccount(BUYER_KEY as `0x${string}`))
const payingFetch = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network: NETWORK as `eip155:${string}`, client }],
})
const response = await payingFetch(`${GATEWAY_URL}${new URL(link.fullUrl).pathname}`)
console.log(`${response.status}, purchase ${response.headers.get('x-purchase-id')}`)
for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
  for (const [, word] of chunk.matchAll(/^data: (.+)$/gm)) {
    console.log(word)
    if (word === 'one') send('two')
    else end()
  }
}
api.close()
api.closeAllConnections()
