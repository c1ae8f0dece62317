import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { startGateway } from './helpers/gateway.ts'
import { until } from './helpers/rawHttp.ts'
import { answering, startAnswering } from './helpers/respondingPlugin.ts'
import { rawSeller, sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler } from './helpers/settler.ts'

const { gateway, payment, paidLink, reaches } = await startAnswering(t, 'answer')

const wrapped: readonly [name: string, type: string, body: string, data: unknown][] = [
  ['json', 'application/json', '{"a":[1,2,{"b":null}]}', { a: [1, 2, { b: null }] }],
  ['json-charset', 'application/json; charset=UTF-8', '"\u00e9\u{1f600}"', '\u00e9\u{1f600}'],
  ['problem', 'application/problem+json', '{"title":"x"}', { title: 'x' }],
  ['empty', 'application/json', '', null],
  ['blank', 'application/json', ' \r\n\t', null],
  ['bom', 'application/json', '\ufeff{"a":1}', { a: 1 }],
  ['number', 'application/json', '12', 12],
]
for (const [name, type, body, data] of wrapped) {
  t.test(`an answer of ${name} is wrapped, whenever it is charged`, async (t) => {
    const seller = await answering(t, type, body, {
      etag: '"e"',
      'last-modified': 'x',
      'cache-control': 'public',
      expires: 'later',
      'x-own': '1',
    })
    for (const settle of ['after', 'before'] as const) {
      if (settle === 'before' && (name === 'bom' || name === 'blank')) continue
      const link = await paidLink(`${name}-${settle}`, seller.url, { settle })
      const headers = payment()
      const response = await fetch(link.url, { headers })
      const text = await response.text()
      t.equal(response.status, 200)
      t.strictSame(JSON.parse(text).data, data)
      t.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
      t.equal(response.headers.get('content-length'), String(Buffer.byteLength(text)))
      t.equal(response.headers.get('cache-control'), 'private, no-store')
      t.equal(response.headers.get('x-own'), '1')
      for (const gone of ['etag', 'last-modified', 'expires']) t.equal(response.headers.get(gone), null, gone)
      const { purchaseId, reviewToken } = JSON.parse(text)._svc
      t.equal(response.headers.get('x-purchase-id'), purchaseId)
      t.equal(response.headers.get('x-review-token'), reviewToken)
      await reaches(headers, 'delivered')
      const again = await fetch(link.url, { headers })
      t.equal(await again.text(), text, 'a repeat gets the same bytes')
      t.strictSame(headersOf(again), headersOf(response), 'and the same headers')
    }
  })
}

const headersOf = (response: Response) => {
  const {
    date,
    connection,
    'keep-alive': _,
    'x-request-id': requestId,
    ...rest
  } = Object.fromEntries(response.headers)
  return rest
}

t.test('text becomes a JSON string, since clients parse every answer', async (t) => {
  const seller = await answering(t, 'text/plain; charset=utf-8', 'a "quoted"\n\u00e9 line')
  const link = await paidLink('text', seller.url)
  const body = (await (await fetch(link.url, { headers: payment() })).json()) as { data: string }
  t.equal(body.data, 'a "quoted"\n\u00e9 line')
})

const passed: readonly [
  name: string,
  seller: Parameters<typeof answering> extends [Test, ...infer Rest] ? Rest : never,
][] = [
  ['binary', ['application/octet-stream', Buffer.from([0, 255, 1, 13, 10])]],
  ['an image', ['image/png', Buffer.from([137, 80])]],
  ['no type', [null, 'anything']],
  ['compressed JSON', ['application/json', gzipSync('{"a":1}'), { 'content-encoding': 'gzip' }]],
  ['JSON in UTF-16', ['application/json; charset=utf-16', Buffer.from('{}', 'utf16le')]],
  ['a part of JSON', ['application/json', '{"a"', { 'content-range': 'bytes 0-3/7' }, 206]],
]
for (const [name, answer] of passed) {
  t.test(`${name} passes as it is, with the ids in headers`, async (t) => {
    const seller = await answering(t, ...answer)
    for (const settle of ['after', 'before'] as const) {
      const link = await paidLink(`${name.replace(/\W/g, '')}-${settle}`, seller.url, { settle })
      const headers = payment()
      const response = await fetch(link.url, { headers })
      const body = Buffer.from(await response.arrayBuffer())
      t.equal(response.status, answer[3] ?? 200)
      t.strictSame(
        body,
        answer[2] && 'content-encoding' in answer[2] ? Buffer.from('{"a":1}') : Buffer.from(answer[1]),
      )
      t.match(response.headers.get('x-purchase-id'), /^[0-9a-f-]{36}$/)
      t.match(response.headers.get('x-review-token'), /^[\w-]{43}$/)
      await reaches(headers, 'delivered')
    }
  })
}

t.test('a link that answers raw gives the bytes as they are', async (t) => {
  const seller = await answering(t, 'application/json', '{"a": 1}', { etag: '"e"' })
  const link = await paidLink('raw', seller.url, { responseMode: 'raw' })
  const response = await fetch(link.url, { headers: payment() })
  t.equal(await response.text(), '{"a": 1}')
  t.equal(response.headers.get('content-type'), 'application/json')
  t.equal(response.headers.get('etag'), '"e"')
  t.ok(response.headers.get('x-purchase-id') && response.headers.get('x-review-token'))
})

t.test('204 is paid for too: wrapped when it says JSON, and 204 otherwise', async (t) => {
  for (const settle of ['after', 'before'] as const) {
    const json = await rawSeller(t, 'HTTP/1.1 204 No Content\r\nContent-Type: application/json\r\n\r\n')
    const silent = await startSeller(t, 'status-204')
    const wrappedLink = await paidLink(`204-json-${settle}`, json.url, { settle })
    const response = await fetch(wrappedLink.url, { headers: payment() })
    t.equal(response.status, 200)
    t.match(await response.json(), { data: null, _svc: { purchaseId: String } })
    const plain = await paidLink(`204-${settle}`, silent.url, { settle })
    const none = await fetch(plain.url, { headers: payment() })
    t.equal(none.status, 204)
    t.ok(none.headers.get('x-purchase-id'))
    t.equal(none.headers.get('content-length'), null)
  }
})

t.test('the field of the metadata has the name that the operator gave it', async (t) => {
  const own = await startGateway(t, {
    settlers: [createScriptedSettler()],
    adapt: (ports) => ({ ...ports, service: { ...ports.service, metadataField: '_t"\\x' } }),
  })
  const seller = await startSeller(t, 'hello')
  const link = await own.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const body = (await (await fetch(link.url, { headers: payment() })).json()) as Record<string, unknown>
  t.strictSame(Object.keys(body), ['data', '_t"\\x'])
})

t.test('the review token of a purchase is always the same, and its hash is what is stored', async (t) => {
  const seller = await startSeller(t, 'hello')
  const link = await paidLink('token', seller.url)
  const headers = payment()
  const ask = async () =>
    (
      (await (await fetch(link.url, { headers })).json()) as {
        _svc: { purchaseId: string; reviewToken: string }
      }
    )._svc
  const first = await ask()
  t.strictSame(await ask(), first)
  t.equal(Buffer.from(first.reviewToken, 'base64url').length, 32)
  const stored = await gateway.store.purchases.find(first.purchaseId)
  t.notMatch(
    JSON.stringify(stored, (_, v) => (typeof v === 'bigint' ? String(v) : v)),
    first.reviewToken,
  )
})

t.test('a used payment buys no other call: another method, query, path, body or link', async (t) => {
  const seller = await startSeller(t, 'mirror')
  const link = await paidLink('one', seller.url)
  const twin = await paidLink('twin', seller.url)
  const headers = payment()
  const post = { method: 'POST', headers: { ...headers, 'content-type': 'text/plain' } }
  const first = await fetch(`${link.url}/a?q=1`, { ...post, body: 'body' })
  t.equal(first.status, 200)
  const text = await first.text()
  const others: [string, RequestInit][] = [
    [`${link.url}/a?q=1`, { ...post, body: 'bodY' }],
    [`${link.url}/a?q=1`, { ...post, body: 'body ' }],
    [`${link.url}/a?q=1`, { ...post }],
    [`${link.url}/a?q=1`, { ...post, method: 'PUT', body: 'body' }],
    [`${link.url}/a?q=1`, { headers }],
    [`${link.url}/a?q=2`, { ...post, body: 'body' }],
    [`${link.url}/a`, { ...post, body: 'body' }],
    [`${link.url}/a/?q=1`, { ...post, body: 'body' }],
    [`${link.url}?q=1`, { ...post, body: 'body' }],
    [`${twin.url}/a?q=1`, { ...post, body: 'body' }],
  ]
  for (const [url, init] of others) {
    const response = await fetch(url, init)
    t.equal(response.status, 409, `${init.method ?? 'GET'} ${new URL(url).pathname}`)
    t.match(await response.json(), { error: { code: 'payment_already_used', retryable: false } })
  }
  t.equal(await (await fetch(`${link.url}/a?q=1`, { ...post, body: 'body' })).text(), text)
  t.equal(seller.requests.length, 1)
})

t.test('a body too long to compare is streamed, and its payment is good for one try', async (t) => {
  const seller = await startSeller(t, 'echo')
  const link = await paidLink('long', seller.url, { responseMode: 'raw' })
  const headers = payment()
  const body = 'x'.repeat(200_000)
  const first = await fetch(link.url, { method: 'POST', headers, body: body.slice(0, 50_000) })
  t.equal((await first.text()).length, 50_000)
  const again = await fetch(link.url, { method: 'POST', headers, body: body.slice(0, 50_000) })
  t.equal(again.status, 409)
  const { error } = (await again.json()) as { error: { message: string } }
  t.match(
    error.message,
    /too long.*never sends its response again.*do not pay again/,
    'no advice to repeat it',
  )
  const other = await fetch(link.url, { method: 'POST', headers, body: 'short' })
  t.match(await other.text(), /another call/)
  t.equal(seller.requests.length, 1)
})

t.test('a payment that is at work on one link is refused on another of the same price', async (t) => {
  const mayGoOn = Promise.withResolvers<void>()
  const seller = await sellerOf(t, async (_req, res) => {
    await mayGoOn.promise
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  const link = await paidLink('at-work', seller.url)
  const twin = await paidLink('at-work-twin', seller.url)
  const headers = payment()
  const first = fetch(link.url, { headers })
  await until(() => seller.calls === 1)
  t.equal((await fetch(twin.url, { headers })).status, 409)
  mayGoOn.resolve()
  t.equal((await first).status, 200)
  t.equal(seller.calls, 1)
})
