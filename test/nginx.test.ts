// The nginx.conf of examples/config in a real nginx, in front of a real gateway.
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { options as upstreamOptions } from '../plugins/upstream/options.ts'
import { freePort } from './helpers/freePort.ts'
import { defaultPlugins, startGateway } from './helpers/gateway.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { selfSignedCertificate } from './helpers/servers/selfSignedCertificate.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'
import { hasProxy, startProxy } from './helpers/startProxy.ts'

const shipped = readFileSync(resolve(import.meta.dirname, '../examples/config/nginx.conf'), 'utf8')

/** nginx with the shipped file as it is, but for ports and the certificate, and nothing else that changes a setting. */
async function startNginx(t: Test, gatewayPort: number, change = (text: string) => text) {
  const certificate = selfSignedCertificate(t, 'DNS:pay.example.com')
  if (certificate === undefined) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-nginx-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  writeFileSync(join(folder, 'cert.pem'), certificate.cert)
  writeFileSync(join(folder, 'key.pem'), certificate.key)
  const own = change(shipped)
    .replace('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${gatewayPort}`)
    .replace('/etc/ssl/pay.example.com.pem', join(folder, 'cert.pem'))
    .replace('/etc/ssl/pay.example.com.key', join(folder, 'key.pem'))
  writeFileSync(join(folder, 'tollgate.conf'), own)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  for (const name of temporary) mkdirSync(join(folder, name))
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off;
${process.getuid?.() === 0 ? 'user root;' : ''}
worker_processes 1;
pid ${join(folder, 'pid')};
error_log stderr;
events {}
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${join(folder, name)};`).join('\n  ')}
  include ${join(folder, 'tollgate.conf')};
}
`,
  )
  await startProxy(t, 'nginx', ['-e', 'stderr', '-p', folder, '-c', join(folder, 'nginx.conf')], port)
  return port
}

interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly text: string
}

/** One request through nginx, with Node's own limit of what it reads of a head. */
function call(port: number, path: string, headers: Record<string, string> = {}, body?: Buffer) {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const method = body === undefined ? 'GET' : 'POST'
  const sent = request(
    { host: '127.0.0.1', port, path, method, headers, rejectUnauthorized: false, agent: false },
    async (response) => {
      let text = ''
      for await (const chunk of response.setEncoding('utf8')) text += chunk
      resolve({ status: response.statusCode!, headers: response.headers, text })
    },
  )
  sent.on('error', reject)
  sent.end(body)
  return promise
}

/** As an OpenAPI document describes the inputs of one operation: `count` fields, each with values to choose from. */
const described = (count: number) => ({
  type: 'object',
  required: ['field0'],
  properties: Object.fromEntries(
    Array.from({ length: count }, (_, i) => [
      `field${i}`,
      { type: 'string', maxLength: 100 + i, enum: [`value one of field ${i}`, `value two of field ${i}`] },
    ]),
  ),
})

const settlers = [createScriptedSettler()]
const options = { trustedProxyCidrs: ['127.0.0.1/32'] }
const isHere = hasProxy(t, 'nginx')

const startBoth = async (t: Test, change?: (text: string) => string) => {
  const gateway = await startGateway(t, { settlers, plugins: defaultPlugins, options })
  const port = await startNginx(t, gateway.port, change)
  return { ...gateway, nginx: port }
}

if (isHere) {
  t.test('a 402 comes through, whatever the link describes of its inputs, and can be paid', async (t) => {
    const { addLink, url, nginx } = await startBoth(t)
    if (nginx === undefined) return
    const seller = await sellerOf(t, (_req, res) => void res.end('{"sold":true}'))
    let largest = 0
    for (const [i, count] of [0, 5, 10, 20, 30].entries()) {
      const { path } = await addLink({
        slug: `described${i}`,
        url: seller.url,
        price: '0.10',
        description: 'é'.repeat(50 * i),
        tags: ['weather', 'forecast'],
        iconUrl: `https://cdn.example.com/${'i'.repeat(100 * i)}.png`,
        inputSchema: described(count),
        outputExample: { responses: Array.from({ length: count }, (_, n) => `answer number ${n}`) },
      })
      const direct = await fetch(url + path)
      const { status, headers, text } = await call(nginx, path)
      t.equal(status, 402, `${count} fields`)
      t.equal(headers['payment-required'], direct.headers.get('payment-required'))
      t.equal(text, await direct.text())
      largest = Math.max(largest, String(headers['payment-required']).length)
      const payment = scriptedPayment(`described${i}`, '100000')
      t.match(await call(nginx, path, { 'payment-signature': payment }), { status: 200 })
    }
    t.ok(largest > 4_096, `the largest offer, ${largest} bytes, needs more than nginx gives by itself`)
  })

  t.test("without the file's own buffers, the same offer is a 502", async (t) => {
    const { addLink, nginx } = await startBoth(t, (text) =>
      text.replace(/^ *proxy_buffer(s|_size) .*;$/gm, ''),
    )
    if (nginx === undefined) return
    const { path } = await addLink({
      slug: 'described',
      url: 'http://127.0.0.1:1',
      price: '0.10',
      inputSchema: described(30),
    })
    t.equal((await call(nginx, path)).status, 502)
  })

  t.test("sellers' heads and buyers' payments pass as large as the gateway takes them", async (t) => {
    const { addLink, nginx } = await startBoth(t)
    if (nginx === undefined) return
    let received = 0
    const seller = await sellerOf(t, (req, res) => {
      received = String(req.headers['x-long']).length
      res.setHeader('x-answer', 'a'.repeat(12_000)).end('{}')
    })
    const { path } = await addLink({ slug: 'free', url: seller.url, price: '0', responseMode: 'raw' })
    const response = await call(nginx, path, { 'x-long': 'q'.repeat(12_000) })
    t.equal(response.status, 200)
    t.equal(received, 12_000)
    t.equal(String(response.headers['x-answer']).length, 12_000)
  })

  t.test('a body may be as large as the gateway takes it, and is not held back by nginx', async (t) => {
    const [, megabytes] = /client_max_body_size (\d+)m;/.exec(shipped)!
    t.equal(Number(megabytes) * 1_048_576, upstreamOptions.properties.maxRequestBytes.default)
    const { addLink, nginx } = await startBoth(t)
    if (nginx === undefined) return
    let bytes = 0
    const first = Promise.withResolvers<void>()
    const seller = await sellerOf(t, async (req, res) => {
      for await (const chunk of req) {
        bytes += chunk.length
        first.resolve()
      }
      res.end('{}')
    })
    const { path } = await addLink({ slug: 'free', url: seller.url, price: '0', methods: ['POST'] })
    t.equal((await call(nginx, path, {}, Buffer.alloc(8_000_000))).status, 200)
    t.equal(bytes, 8_000_000)
    const sent = request({
      ...{ host: '127.0.0.1', port: nginx, path, method: 'POST', rejectUnauthorized: false, agent: false },
      headers: { 'transfer-encoding': 'chunked' },
    })
    const answered = once(sent, 'response')
    sent.write('a first piece')
    await first.promise
    sent.end('the rest')
    const [response] = (await answered) as [IncomingMessage]
    t.equal(response.resume().statusCode, 200)
  })

  t.test('an event reaches the buyer before the seller sends the next one', async (t) => {
    const { addLink, nginx } = await startBoth(t)
    if (nginx === undefined) return
    const next = Promise.withResolvers<void>()
    const seller = await sellerOf(t, async (_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: one\n\n')
      await next.promise
      res.end('data: two\n\n')
    })
    const { path } = await addLink({ slug: 'events', url: seller.url, price: '0', responseMode: 'raw' })
    const sent = request({
      host: '127.0.0.1',
      port: nginx,
      path,
      rejectUnauthorized: false,
      agent: false,
    }).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    const pieces = response.setEncoding('utf8')[Symbol.asyncIterator]()
    t.equal((await pieces.next()).value, 'data: one\n\n')
    next.resolve()
    t.equal((await pieces.next()).value, 'data: two\n\n')
  })

  t.test('a WebSocket is carried both ways', async (t) => {
    const { addLink, nginx } = await startBoth(t)
    if (nginx === undefined) return
    const echo = await startSeller(t, 'websocket-echo')
    const { path } = await addLink({ slug: 'socket', url: echo.url, price: '0' })
    const socket = new WebSocket(`wss://127.0.0.1:${nginx}${path}`, { rejectUnauthorized: false })
    await once(socket, 'open')
    const response = once(socket, 'message')
    socket.send('hello')
    t.equal(String((await response)[0]), 'hello')
    socket.close()
    await once(socket, 'close')
  })

  t.test('a path reaches the seller as it was sent', async (t) => {
    const { addLink, nginx } = await startBoth(t)
    if (nginx === undefined) return
    const seen: (string | undefined)[] = []
    const seller = await sellerOf(t, (req, res) => {
      seen.push(req.url)
      res.end('{}')
    })
    const { path } = await addLink({ slug: 'free', url: seller.url, price: '0' })
    for (const rest of ['/a%20b?q=%2F&q=+', '/caf%C3%A9', '/a;b=c']) await call(nginx, path + rest)
    t.strictSame(seen, ['/a%20b?q=%2F&q=+', '/caf%C3%A9', '/a;b=c'])
  })

  t.test('buyers are counted by the addresses that nginx passes on', async (t) => {
    const limit = { use: 'rate-limit', with: { points: 1, windowMs: 3_600_000, keyBy: 'ip' } }
    const others = defaultPlugins.filter(({ use }) => use !== 'rate-limit')
    const gateway = await startGateway(t, { settlers, plugins: [limit, ...others], options })
    const nginx = await startNginx(t, gateway.port)
    if (nginx === undefined) return
    const seller = await sellerOf(t, (_req, res) => void res.end('{}'))
    const { path } = await gateway.addLink({ slug: 'free', url: seller.url, price: '0' })
    // The buyer's own address is that of a trusted proxy here, so the one to its left in the header is counted.
    const through = (address: string) => call(nginx, path, { 'x-forwarded-for': address })
    t.equal((await through('198.51.100.1')).status, 200)
    t.equal((await through('198.51.100.2')).status, 200)
    t.equal((await through('198.51.100.1')).status, 429)
  })
}

t.test("nginx waits longer than the gateway's own limits last", async (t) => {
  const { tunnelIdleTimeoutMs, headersTimeoutMs, responseTimeoutMs, bodyTimeoutMs } =
    upstreamOptions.properties
  const longest = Math.max(
    tunnelIdleTimeoutMs.default,
    headersTimeoutMs.default + responseTimeoutMs.default + bodyTimeoutMs.default,
  )
  for (const name of ['proxy_read_timeout', 'proxy_send_timeout']) {
    const [, seconds] = new RegExp(`${name} (\\d+)s;`).exec(shipped)!
    t.ok(Number(seconds) * 1_000 > longest, name)
  }
})
