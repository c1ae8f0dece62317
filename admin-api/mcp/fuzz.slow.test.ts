import fc from 'fast-check'
import t, { type Test } from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'

const names = [
  ...['search_links', 'get_link', 'call_link', 'submit_review', 'create_store', 'create_link', 'update_link'],
  ...['create_payment', 'list_purchases', 'get_stats'],
]
const fields = [
  ...[
    'link',
    'path',
    'query',
    'headers',
    'body',
    'method',
    'payment',
    'q',
    'limit',
    'offset',
    'network',
    'minPrice',
  ],
  ...[
    'address',
    'chain',
    'message',
    'signature',
    'username',
    'url',
    'title',
    'price',
    'id',
    'inputSchema',
    'amount',
  ],
  ...[
    'linkId',
    'cursor',
    'period',
    'purchaseId',
    'wallet',
    'token',
    'positive',
    'idempotencyKey',
    'metadata',
    'apiKey',
  ],
]
/** Arguments of calls that would succeed, so that each wrong argument is reached. */
const right = {
  link: 'demo/it',
  ...{
    address: '0x00000000000000000000000000000000000000b1',
    chain: 'base',
    message: 'x',
    signature: '0x00',
  },
  ...{
    title: 'x',
    url: 'http://127.0.0.1:9/',
    amount: '1',
    purchaseId: '00000000-0000-4000-8000-000000000000',
  },
}

async function start(t: Test) {
  const seller = await startSeller(t, 'hello')
  const { gateway, addLink } = await startGateway(t)
  await addLink({ slug: 'it', url: seller.url })
  const f = await startAdmin(t, { linkCalls: gateway.linkCalls, options: { probeTimeoutMs: 50 } })
  const { key } = await f.store()
  const post = async (body: string, more: Record<string, string> = {}) => {
    const headers = {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...{ authorization: `Bearer ${key}`, ...more },
    }
    // A socket of its own, because an answer may be a stream.
    const { port } = await listening
    const response = await fetch(`http://127.0.0.1:${port}/mcp`, { method: 'POST', headers, body })
    return { status: response.status, text: await response.text() }
  }
  const listening = f.admin.listen({ host: '127.0.0.1', port: 0 })
  await listening
  return { f, post }
}

t.test('no arguments whatever are answered with anything but a result', async (t) => {
  const { f, post } = await start(t)
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.string({ unit: fc.constantFrom('/', '.', '%', '2', 'e', 'a', '?', '\r', '\n', '\\', '#', ':', '☃') }),
  )
  const args = fc.dictionary(fc.constantFrom(...fields), value, { maxKeys: 5 })
  const meta = fc.option(fc.dictionary(fc.constantFrom('x402/payment', 'progressToken', 'a'), value))
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...names),
      args,
      meta,
      fc.boolean(),
      async (name, given, _meta, isNear) => {
        const own = Object.fromEntries(Object.entries(right).filter(() => isNear))
        const params = { name, arguments: { ...own, ...given }, ...(_meta && { _meta }) }
        const { status, text } = await post(
          JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
        )
        if (status === 400) return /"jsonrpc":"2.0"/.test(text)
        const data = text.split('\n').findLast((line) => line.startsWith('data: '))
        const { result, error } = JSON.parse(data!.slice(6))
        // The protocol's own reader refuses a progress token that is none; any it lets pass is a result.
        return error !== undefined ? error.code < 0 : Array.isArray(result.content)
      },
    ),
    { numRuns: 1_500 },
  )
  t.strictSame(f.logged, [], 'nothing failed that nobody expected')
})

t.test('no bytes and no messages are answered with a 5xx, or not at all', async (t) => {
  const { f, post } = await start(t)
  const message = fc.record(
    {
      jsonrpc: fc.oneof(fc.constant('2.0'), fc.jsonValue({ maxDepth: 1 })),
      id: fc.oneof(fc.integer(), fc.string(), fc.jsonValue({ maxDepth: 1 })),
      method: fc.oneof(
        fc.constantFrom('initialize', 'ping', 'tools/list', 'tools/call', 'notifications/cancelled', 'x'),
        fc.jsonValue({ maxDepth: 1 }),
      ),
      params: fc.jsonValue({ maxDepth: 3 }),
    },
    { requiredKeys: [] },
  )
  const body = fc.oneof(
    fc.string({ unit: 'binary' }),
    message.map((one) => JSON.stringify(one)),
    fc.array(message, { maxLength: 5 }).map((many) => JSON.stringify(many)),
  )
  const headers = fc.constantFrom<Record<string, string>>(
    ...[
      {},
      { 'mcp-session-id': 'x' },
      { 'mcp-protocol-version': 'x' },
      { accept: '*/*' },
      { authorization: 'x' },
    ],
  )
  await fc.assert(
    fc.asyncProperty(body, headers, async (text, more) => (await post(text, more)).status < 500),
    { numRuns: 1_500 },
  )
  t.strictSame(f.logged, [])
})
