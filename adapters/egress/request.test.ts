import t, { type Test } from 'tap'
import type { EgressRequest, EgressResponse } from '../../core/ports/egress.ts'
import { deadOrigin, rawKinds, type SellerKind, startSeller } from '../../test/helpers/sellers.ts'
import { createEgress } from './egress.ts'

async function start(t: Test, kind: SellerKind) {
  const seller = await startSeller(t, kind)
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
  t.teardown(() => egress.close())
  const request = (change: Partial<EgressRequest> = {}) =>
    egress.request({
      url: `${seller.url}/`,
      method: 'GET',
      timeoutMs: 10_000,
      maxBytes: 1_000_000,
      ...change,
    })
  return { seller, egress, request }
}

/** The error's code, or what was answered. */
function outcome(answering: Promise<EgressResponse>): Promise<string | number> {
  return answering.then(
    ({ status }) => status,
    (error) => error.code,
  )
}

t.test('an answer comes whole: status, headers, body', async (t) => {
  const { request, seller } = await start(t, 'mirror')
  const body = Buffer.from('grüße')
  const response = await request({
    method: 'POST',
    body,
    headers: { 'x-mine': 'yes', 'content-type': 'text/plain' },
  })
  t.match(response, { status: 200, headers: { 'content-type': 'application/json' } })
  const result = JSON.parse(Buffer.from(response.body).toString())
  t.equal(Buffer.from(result.body, 'latin1').toString(), 'grüße')
  t.match(seller.requests, [{ method: 'POST', target: '/' }])
})

t.test('the caller’s headers can not change where or how the request goes', async (t) => {
  const { request, seller } = await start(t, 'mirror')
  const headers = {
    Host: 'other.test',
    'Accept-Encoding': 'gzip',
    Connection: 'x-mine',
    'Transfer-Encoding': 'chunked',
    'Content-Length': '99',
    Upgrade: 'websocket',
    'X-Mine': 'yes',
  }
  t.equal(await outcome(request({ headers })), 200)
  const sent = new Map<string, string>()
  const { rawHeaders } = seller.requests[0]!
  for (let i = 0; i < rawHeaders.length; i += 2) sent.set(rawHeaders[i]!.toLowerCase(), rawHeaders[i + 1]!)
  t.equal(sent.get('host'), new URL(seller.url).host)
  t.equal(sent.get('accept-encoding'), 'identity')
  t.equal(sent.get('x-mine'), 'yes')
  t.notOk(sent.has('upgrade') || sent.has('transfer-encoding') || sent.get('content-length') === '99')
})

t.test('a request that can not be sent safely is not sent', async (t) => {
  const { request, seller } = await start(t, 'hello')
  for (const method of ['CONNECT', 'TRACE', 'get', 'GET / HTTP/1.1\r\nX: y', '']) {
    t.equal(await outcome(request({ method })), 'EGRESS_BAD_REQUEST', JSON.stringify(method))
  }
  for (const value of ['a\r\nx-injected: 1', 'a\nb', 'a\0b']) {
    t.equal(
      await outcome(request({ headers: { 'x-mine': value } })),
      'EGRESS_BAD_REQUEST',
      JSON.stringify(value),
    )
  }
  t.equal(await outcome(request({ headers: { 'x mine': 'a' } })), 'EGRESS_BAD_REQUEST')
  t.equal(seller.requests.length, 0)
})

t.test('answers other than 200 are answers, and a redirect is not followed', async (t) => {
  for (const [kind, status] of [
    ['status-500', 500],
    ['status-404', 404],
    ['status-204', 204],
    ['redirect', 302],
  ] as const) {
    const { request, seller } = await start(t, kind)
    t.equal(await outcome(request()), status)
    t.equal(seller.requests.length, 1)
  }
})

/** What each misbehaving seller must come to. Several words where the kernel decides which of two things is seen first. */
const expected: Readonly<Record<(typeof rawKinds)[number], RegExp>> = {
  silent: /^EGRESS_TIMEOUT$/,
  'slow-headers': /^EGRESS_TIMEOUT$/,
  'interim-flood': /^EGRESS_BAD_ANSWER$/,
  'slow-body': /^EGRESS_TIMEOUT$/,
  'stalled-body': /^EGRESS_TIMEOUT$/,
  reset: /^EGRESS_BROKEN$/,
  'hang-up': /^EGRESS_BROKEN$/,
  'reset-mid-body': /^EGRESS_BROKEN$/,
  truncated: /^EGRESS_(BROKEN|BAD_ANSWER)$/,
  'length-too-long': /^EGRESS_(BROKEN|BAD_ANSWER)$/,
  'length-too-short': /^200$/,
  'two-lengths': /^EGRESS_BAD_ANSWER$/,
  'length-and-chunked': /^EGRESS_BAD_ANSWER$/,
  'two-answers': /^200$/,
  endless: /^EGRESS_TOO_LARGE$/,
  big: /^EGRESS_TOO_LARGE$/,
  'bad-chunk': /^EGRESS_BAD_ANSWER$/,
  'invalid-status-line': /^EGRESS_BAD_ANSWER$/,
  'invalid-status': /^EGRESS_BAD_ANSWER$/,
  noise: /^EGRESS_BAD_ANSWER$/,
  'header-flood': /^EGRESS_LARGE_HEAD$/,
  'header-too-large': /^EGRESS_LARGE_HEAD$/,
  'header-cr': /^EGRESS_BAD_ANSWER$/,
  'header-lf': /^EGRESS_BAD_ANSWER$/,
  'header-nul': /^EGRESS_BAD_ANSWER$/,
  'header-space': /^EGRESS_BAD_ANSWER$/,
  'unasked-upgrade': /^EGRESS_BROKEN$/,
}

for (const kind of rawKinds) {
  t.test(
    `a seller of the kind ${kind} comes to ${expected[kind].source}, and its connection is gone`,
    async (t) => {
      const { request, seller } = await start(t, kind)
      // The slow kinds would never end without the time limit of the request.
      const timeoutMs = expected[kind].test('EGRESS_TIMEOUT') ? 300 : 10_000
      t.match(String(await outcome(request({ timeoutMs }))), expected[kind])
      const open = [...seller.connections]
      await Promise.all(open.map((socket) => new Promise((resolve) => socket.once('close', resolve))))
      t.equal(seller.connections.size, 0)
    },
  )
}

t.test('an endless body is stopped near its limit', async (t) => {
  const { request, seller } = await start(t, 'endless')
  t.equal(await outcome(request({ maxBytes: 100_000 })), 'EGRESS_TOO_LARGE')
  t.ok(seller.sentBytes < 16 * 1024 * 1024, `${seller.sentBytes} bytes were handed to the kernel`)
})

t.test(
  'an answer that may be cut is its status and its first bytes, and its connection ends there',
  async (t) => {
    const { request, seller } = await start(t, 'endless')
    const response = await request({ maxBytes: 1_000, isCut: true })
    t.match([response.status, response.body.length], [200, 1_000])
    await Promise.all(
      [...seller.connections].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
    )
    t.equal(seller.connections.size, 0)
  },
)

t.test('an announced length beyond the limit is refused before its body is read', async (t) => {
  const { request } = await start(t, 'slow-body')
  t.equal(await outcome(request({ maxBytes: 999_999 })), 'EGRESS_TOO_LARGE')
})

t.test('a body of exactly the limit passes, one byte more does not', async (t) => {
  const { request } = await start(t, 'echo')
  const body = Buffer.alloc(100_000, 'b')
  const response = await request({ method: 'POST', body, maxBytes: 100_000 })
  t.equal(response.body.length, 100_000)
  t.equal(await outcome(request({ method: 'POST', body, maxBytes: 99_999 })), 'EGRESS_TOO_LARGE')
})

t.test('a compressed body stays compressed', async (t) => {
  const { request } = await start(t, 'gzip-bomb')
  const response = await request()
  t.equal(response.headers['content-encoding'], 'gzip')
  t.ok(response.body.length < 1_000_000)
  t.strictSame([...response.body.slice(0, 2)], [0x1f, 0x8b])
})

t.test('bytes behind an answer are never taken for the next one', async (t) => {
  for (const kind of ['two-answers', 'length-too-short'] as const) {
    const { request, seller } = await start(t, kind)
    for (let i = 0; i < 5; i++) {
      const result = await request().then(
        ({ body }) => Buffer.from(body).toString(),
        (error) => error.code,
      )
      t.ok(
        result === (kind === 'two-answers' ? 'ok' : 'too') || result === 'EGRESS_BROKEN',
        `${kind}: ${result}`,
      )
    }
    t.ok(seller.requests.length > 0)
  }
})

t.test('a seller that is not there is unreachable, and the message names no address', async (t) => {
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
  t.teardown(() => egress.close())
  const origin = (await deadOrigin()).replace('127.0.0.1', 'localhost')
  const asking = egress.request({ url: origin, method: 'GET', timeoutMs: 10_000, maxBytes: 1_000 })
  const error = await asking.then(
    () => undefined,
    (error) => error,
  )
  t.match(error, { code: 'EGRESS_UNREACHABLE' })
  t.notMatch(error.message, '127.0.0.1')
  t.equal(error.cause.code, 'ECONNREFUSED', 'the log can say')
})

t.test('a request that its caller gives up fails at once, and its connection ends', async (t) => {
  const { request, seller } = await start(t, 'silent')
  const caller = new AbortController()
  const underWay = outcome(request({ signal: caller.signal }))
  while (seller.requests.length === 0) await new Promise(setImmediate)
  caller.abort()
  t.equal(await underWay, 'EGRESS_CLOSED')
  t.equal(await outcome(request({ signal: caller.signal })), 'EGRESS_CLOSED')
  t.equal(seller.requests.length, 1, 'given up before it began, it is not sent')
})

t.test('after close nothing is sent, and what was under way fails', async (t) => {
  const { request, seller, egress } = await start(t, 'silent')
  const underWay = outcome(request())
  while (seller.requests.length === 0) await new Promise(setImmediate)
  await egress.close()
  t.equal(await underWay, 'EGRESS_CLOSED')
  t.equal(await outcome(request()), 'EGRESS_CLOSED')
  t.throws(() => egress.pool(seller.url), { code: 'EGRESS_CLOSED' })
  await t.rejects(egress.connect(new URL(seller.url)), { code: 'EGRESS_CLOSED' })
})
