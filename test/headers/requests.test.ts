import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { startGateway } from '../helpers/gateway.ts'
import { hasWholeResponse, talk } from '../helpers/rawHttp.ts'
import { startSeller } from '../helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../helpers/settler.ts'

const seller = await startSeller(t, 'hello')

const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })

const free = await gateway.addLink({ slug: 'free', url: seller.url })

/** The names and values that the seller gets of a request with these header lines. */
async function forwarded(path: string, lines: readonly string[]): Promise<[name: string, value: string][]> {
  const before = seller.requests.length
  const head = [`GET ${path} HTTP/1.1`, 'Host: gateway.example', ...lines].join('\r\n')
  await talk(gateway.port, `${head}\r\n\r\n`, hasWholeResponse)
  const { rawHeaders } = seller.requests[before]!
  const pairs: [string, string][] = []
  for (let i = 0; i < rawHeaders.length; i += 2)
    pairs.push([rawHeaders[i]!.toLowerCase(), rawHeaders[i + 1]!])
  return pairs
}

t.test('what must not cross to the seller stays behind, in any case of letters', async (t) => {
  const hidden = [
    ...[
      'Keep-Alive: timeout=5',
      'TE: trailers',
      'Trailer: X-T',
      'Proxy-Authorization: Basic eA==',
      'Proxy-Connection: keep-alive',
    ],
    ...['Proxy-Authenticate: Basic', 'Upgrade: h2c', 'HTTP2-Settings: AAM'],
    ...[
      'Cookie: session=1',
      'Forwarded: for=1.2.3.4',
      'X-Forwarded-For: 1.2.3.4',
      'X-Forwarded-Host: evil',
      'X-Forwarded-Proto: https',
    ],
    ...[
      'X-Forwarded-Anything: x',
      'X-Real-IP: 1.2.3.4',
      'PAYMENT-SIGNATURE: e30=',
      'X-PAYMENT: e30=',
      'X-Payment-Response: e30=',
    ],
    ...['Payment-Required: e30=', 'Payment-Whatever: x', 'Settlement-Overrides: {}', 'X402-Version: 1'],
  ]
  const variants = (line: string) => [line, line.toUpperCase().replace(/:.*/, ': x'), line.toLowerCase()]
  for (const line of hidden.flatMap(variants)) {
    if (/^upgrade/i.test(line)) continue
    const name = line.split(':', 1)[0]!.toLowerCase()
    const got = (await forwarded(free.path, [line, 'X-Kept: yes'])).filter(([n]) => n === name)
    // The gateway's own word about the caller takes the place of the caller's.
    const expected = name === 'x-forwarded-for' ? [['x-forwarded-for', '127.0.0.1']] : []
    t.strictSame(got, expected, line)
  }
})

t.test(
  'no word of a proxy that is not there reaches the seller, nor a careless spelling of one',
  async (t) => {
    const names = [
      ...[
        'X-Forwarded',
        'X-Forwarded-For',
        'X-Original-Forwarded-For',
        'Forwarded',
        'Forwarded-For',
        'X-Real-IP',
      ],
      ...[
        'True-Client-IP',
        'CF-Connecting-IP',
        'CF-Connecting-IPv6',
        'X-Client-IP',
        'Client-IP',
        'X-Cluster-Client-IP',
      ],
      ...['Fastly-Client-IP', 'X-Originating-IP', 'X-Remote-IP', 'X-Remote-Addr', 'X-Envoy-External-Address'],
      ...[
        'X-Original-URL',
        'X-Rewrite-URL',
        'X-Original-URI',
        'X-Host',
        'X-Original-Host',
        'X-Forwarded-Host',
      ],
      ...[
        'X-HTTP-Method-Override',
        'X-HTTP-Method',
        'X-Method-Override',
        'Client-Cert',
        'X-SSL-Client-Verify',
        'Proxy',
      ],
      ...['Cookie', 'Payment-Signature', 'X-Payment', 'HTTP2-Settings', 'Proxy-Authorization'],
    ]
    const spellings = (name: string) => [
      name,
      name.toUpperCase().replaceAll('-', '_'),
      name.replace('-', '_'),
      name.replaceAll('-', '.'),
      name.replaceAll('-', '!'),
    ]
    const lines = names.flatMap(spellings).map((name) => `${name}: 9.9.9.9`)
    const kept = [
      'Content_Type: text/plain',
      'X-Forward-Me: yes',
      'api_key: k',
      'X-Clients: 2',
      'X_Own.Name: 1',
    ]
    const got = await forwarded(free.path, [
      ...lines,
      'Content_Length: 5',
      'Transfer_Encoding: chunked',
      ...kept,
    ])
    const ofTheGateway = ['host', 'connection', 'x-request-id', 'cdn-loop']
    t.strictSame(
      got.filter(([name]) => !ofTheGateway.includes(name!)),
      [
        ...kept.map((line) => [line.split(': ')[0]!.toLowerCase(), line.split(': ')[1]!]),
        ['x-forwarded-for', '127.0.0.1'],
      ],
    )
  },
)

t.test('headers that Connection nominates are dropped, whatever they are', async (t) => {
  const got = await forwarded(free.path, [
    'Connection: close, X-Mine ,x-other',
    'X-Mine: 1',
    'X-OTHER: 2',
    'X-Kept: 3',
  ])
  const names = got.map(([name]) => name)
  t.notOk(names.includes('x-mine') || names.includes('x-other'))
  t.ok(names.includes('x-kept'))
})

t.test('everything else reaches the seller as it came, repeated names included', async (t) => {
  const lines = [
    'Accept: */*',
    'X-Twice: 1',
    'X-Twice: 2',
    'Authorization: Bearer x',
    'User-Agent: agent',
    'X-Empty:',
    'X-Latin: \xe9',
    'Accept-Encoding: gzip',
  ]
  const got = await forwarded(free.path, lines)
  for (const line of lines) {
    const [name, value] = [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]
    t.ok(
      got.some(([n, v]) => n === name && v === value),
      line,
    )
  }
  t.equal(got.filter(([name]) => name === 'host').length, 1)
  t.ok(
    got.some(([name, value]) => name === 'host' && value === new URL(seller.url).host),
    "the seller's own host",
  )
})

t.test('names and values of any kind arrive unchanged or the call is refused', async () => {
  const name = fc
    .string({ unit: fc.constantFrom(..."abcXYZ019-_!#$%&'*+.^`|~"), minLength: 1, maxLength: 12 })
    .map((s) => `x-t${s}`)
  const value = fc.string({
    unit: fc
      .integer({ min: 0x20, max: 0xff })
      .filter((c) => c !== 0x7f)
      .map((c) => String.fromCharCode(c)),
    maxLength: 30,
  })
  await fc.assert(
    fc.asyncProperty(name, value, async (n, v) => {
      const got = await forwarded(free.path, [`${n}: ${v}`])
      const trimmed = v.replace(/^[ \t]+|[ \t]+$/g, '')
      return got.some(([name, value]) => name === n.toLowerCase() && value === trimmed)
    }),
    { numRuns: 200 },
  )
})

t.test('a body in a coding that nobody knows is 415 before anything is charged', async (t) => {
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler] })
  const seller = await startSeller(t, 'mirror')
  let requestCount = 0
  for (const fields of [
    {},
    { price: '0.10' },
    { price: '0.10', settle: 'before' },
    { price: '0.10', responseMode: 'raw' },
  ] as const) {
    const slug = Object.values(fields).join('-').replace('.', '') || 'free'
    const link = await gateway.addLink({ slug, url: seller.url, ...fields })
    const call = (coding: string, method = 'POST') =>
      fetch(link.url, {
        method,
        headers: {
          'content-encoding': coding,
          'payment-signature': scriptedPayment(`${slug} ${coding} ${method}`, '100000'),
        },
        ...(method === 'POST' && { body: 'pressed' }),
      })
    const before = settler.transfers.length
    for (const coding of ['lzma', 'gzip, x-own', 'gzip br', 'gzip;q=1', 'gzip,'.repeat(9), ',,,,,,,,,lzma']) {
      const response = await call(coding)
      t.equal(response.status, 415, `${slug} ${coding}`)
      t.match(response.headers.get('accept-encoding'), /^gzip, .*identity/)
      t.match(await response.json(), { error: { code: 'unsupported_encoding', retryable: false } })
    }
    t.equal(settler.transfers.length, before, 'nothing was charged')
    t.equal(seller.requests.length, requestCount, 'nor asked of the seller')
    for (const coding of [
      'GZIP',
      'br',
      'zstd',
      'aws-chunked, gzip',
      ' , identity',
      'x-gzip,deflate,compress',
    ]) {
      const response = await call(coding)
      t.equal(response.status, 200, `${slug} ${coding}`)
      t.match(await response.text(), 'pressed', 'as it came')
      requestCount = seller.requests.length
    }
    t.equal((await call('lzma', 'GET')).status, 200, 'where there is no body there is nothing to understand')
    requestCount = seller.requests.length
  }
})

t.test("the seller's own headers replace the caller's and are sealed at rest", async (t) => {
  const { sealer } = gateway.ports
  const id = await gateway.addLink({ slug: 'sealed', url: seller.url })
  const sealed = sealer.seal(JSON.stringify({ Authorization: 'Bearer seller', 'X-Key': 'k' }), id.id)
  await gateway.store.links.update(id.id, { upstreamHeadersSealed: sealed }, Date.now())
  const got = await forwarded(id.path, [
    'authorization: Bearer caller',
    'AUTHORIZATION: again',
    'x-key: mine',
    'X_Key: mine',
  ])
  const values = (name: string) => got.filter(([n]) => n === name).map(([, v]) => v)
  t.strictSame(values('authorization'), ['Bearer seller'])
  t.strictSame(values('x-key'), ['k'])
  t.strictSame(values('x_key'), [], 'nor under a name that is the same to some servers')
})

t.test('a link whose sealed headers cannot be opened answers a clear 502, and others go on', async (t) => {
  const broken = await gateway.addLink({
    slug: 'unsealed',
    url: seller.url,
    upstreamHeadersSealed: 'not sealed by us',
  })
  const response = await fetch(broken.url)
  t.equal(response.status, 502)
  t.match(await response.json(), { error: { code: 'upstream_error', message: /at the link's address/ } })
  t.equal((await fetch(free.url)).status, 200)
})

t.test('a body where a careless seller reads none is no second request to it', async (t) => {
  const inner = 'GET /secret HTTP/1.1\r\nHost: s\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n'
  const heads: string[] = []
  // Reads heads only, as servers do whose handlers don't look at a body; ends with the request that says so.
  const careless = createServer((socket) => {
    let text = ''
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      for (let end = text.indexOf('\r\n\r\n'); end !== -1 && !socket.writableEnded; ) {
        const head = text.slice(0, end)
        heads.push(head)
        text = text.slice(end + 4)
        end = text.indexOf('\r\n\r\n')
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
        if (/^connection: close$/im.test(head)) socket.end()
      }
    })
  }).listen(0, '127.0.0.1')
  await once(careless, 'listening')
  t.teardown(() => careless.close())
  const { port } = careless.address() as AddressInfo
  const link = await gateway.addLink({ slug: 'careless', url: `http://127.0.0.1:${port}/open` })
  const framings = [
    `Content-Length: ${inner.length}\r\n\r\n${inner}`,
    `Transfer-Encoding: chunked\r\n\r\n${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`,
  ]
  for (const method of ['GET', 'DELETE', 'OPTIONS', 'HEAD']) {
    for (const framing of framings) {
      const head = `${method} ${link.path} HTTP/1.1\r\nHost: g\r\n${framing}`
      t.strictSame((await talk(gateway.port, head, (text) => text.includes('\r\n\r\n'))).statuses, [200])
      // Another caller, who would get the answer to what was smuggled.
      t.equal((await fetch(link.url)).status, 200)
    }
  }
  t.strictSame(
    heads.filter((head) => head.startsWith('GET /secret')),
    [],
  )
  t.equal(heads.length, 16)
  await fetch(link.url, { method: 'HEAD' })
  t.match(heads.at(-1), /connection: close/i, 'after HEAD some send a body, which would be the next answer')
})

t.test('a payment on a free link is ignored and not handed on', async (t) => {
  const got = await forwarded(free.path, [
    `Payment-Signature: ${scriptedPayment('free', '100000')}`,
    'X-PAYMENT: junk',
  ])
  t.notOk(got.some(([name]) => name.includes('payment')))
})
