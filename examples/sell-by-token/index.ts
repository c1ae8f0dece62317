/**
 * Sells a language model by the token. The API answers in the form of OpenAI's chat completions, as a stream whose last event
 * reports the usage. The buyer authorizes at most 0.10 USDC by `upto`, reads the words as they come, and is charged for the tokens at
 * the end. The wallet must have approved Permit2.
 *
 * GATEWAY_URL=… API_KEY=tg_live_… BUYER_KEY=0x… node examples/sell-by-token/index.ts
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const { GATEWAY_URL, API_KEY, BUYER_KEY, NETWORK = 'eip155:84532' } = process.env
if (!GATEWAY_URL || !API_KEY || !BUYER_KEY)
  throw new Error('Expected GATEWAY_URL, API_KEY and BUYER_KEY in the environment.')

// The seller's API: a model that always says the same. It reports its usage, although the buyer did not ask for that.
const api = createServer((_req, res) => {
  const event = (data: object) =>
    res.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', ...data })}\n\n`)
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const content of ['Hello', ' from', ' a', ' model.'])
    event({ choices: [{ index: 0, delta: { content }, finish_reason: null }], usage: null })
  event({ choices: [], usage: { prompt_tokens: 1_000, completion_tokens: 500, total_tokens: 1_500 } })
  res.end('data: [DONE]\n\n')
})
await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${(api.address() as AddressInfo).port}/v1/chat/completions`

const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' }
const created = await fetch(`${GATEWAY_URL}/api/v1/links`, {
  method: 'POST',
  headers,
  body: JSON.stringify({
    url,
    title: 'A model, by the token',
    price: { upTo: '0.10', by: { tokens: { input: '3', output: '15' } }, otherwise: '0.02', stream: true },
  }),
})
const { data: link } = (await created.json()) as { data: { id: string; fullUrl: string } }

const client = new UptoEvmScheme(privateKeyToAccount(BUYER_KEY as `0x${string}`))
const payingFetch = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network: NETWORK as `eip155:${string}`, client }],
})
const response = await payingFetch(`${GATEWAY_URL}${new URL(link.fullUrl).pathname}`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'example', stream: true, messages: [{ role: 'user', content: 'Hello?' }] }),
})
const said = [...(await response.text()).matchAll(/"content":"([^"]*)"/g)].map(([, word]) => word)
console.log(`${response.status}: ${said.join('')}`)

// The charge follows the end of the stream.
const purchase = `${GATEWAY_URL}/api/v1/purchases/${response.headers.get('x-purchase-id')}`
for (let tries = 0; tries < 50; tries++) {
  const found = await fetch(purchase, { headers })
  if (found.ok) {
    const { data } = (await found.json()) as { data: { amount: string; authorizedAmount: string } }
    console.log(`charged ${data.amount} of at most ${data.authorizedAmount} USDC`)
    break
  }
  await new Promise((resolve) => setTimeout(resolve, 200))
}
api.close()
api.closeAllConnections()
