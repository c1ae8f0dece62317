import t from 'tap'
import { bombBytes, deadOrigin, type SellerKind, startSeller } from './sellers.ts'

const ask = async (t: Parameters<typeof startSeller>[0], kind: SellerKind, init?: RequestInit) => {
  const seller = await startSeller(t, kind)
  return { seller, response: await fetch(seller.url, { redirect: 'manual', ...init }) }
}

t.test('the well-behaved kinds do what they say', async (t) => {
  for (const [kind, status] of [
    ['hello', 200],
    ['status-500', 500],
    ['status-404', 404],
    ['status-204', 204],
    ['redirect', 302],
    ['forbidden-headers', 200],
    ['websocket-echo', 426],
  ] as const) {
    const { response } = await ask(t, kind)
    t.equal(response.status, status, kind)
    await response.arrayBuffer()
  }
  const { response, seller } = await ask(t, 'echo', { method: 'POST', body: 'there and back' })
  t.equal(await response.text(), 'there and back')
  t.match(seller.requests, [{ method: 'POST', target: '/' }])
})

t.test('an event stream goes on until its reader leaves', async (t) => {
  const { response, seller } = await ask(t, 'sse')
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('data: 3\n\n')) text += (await reader.read()).value
  t.ok(text.startsWith('data: 1\n\n'))
  const [socket] = seller.connections
  const gone = new Promise((resolve) => socket!.once('close', resolve))
  await reader.cancel()
  await gone
})

t.test('the bomb unpacks to its size', async (t) => {
  const { response } = await ask(t, 'gzip-bomb')
  let bytes = 0
  for await (const chunk of response.body!) bytes += chunk.length
  t.equal(bytes, bombBytes)
})

t.test('a dead origin refuses connections', async (t) => {
  await t.rejects(fetch(await deadOrigin()), { cause: { code: 'ECONNREFUSED' } })
})
