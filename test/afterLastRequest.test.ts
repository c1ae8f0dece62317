import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startGateway } from './helpers/gateway.ts'
import { openSocket, talk, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'

/** Node looks for late requests each second: by then all that came with a call is late. */
const WORK_MS = 2_500
const limits = { headersTimeoutMs: 300, requestTimeoutMs: 600, drainTimeoutMs: 20_000 }

let requestCount = 0
const seller = await sellerOf(t, (_req, res) => {
  requestCount++
  setTimeout(() => res.end('{"done":true}'), WORK_MS)
})

async function start() {
  const gateway = await startGateway(t, { plugins: [{ use: 'upstream' }], options: limits })
  const link = await gateway.addLink({ slug: 'slow', url: seller.url, methods: ['GET', 'POST'] })
  return { ...gateway, path: link.path }
}

const { addLink, port, path } = await start()
const call = (more = '', of = path) => `GET ${of} HTTP/1.1\r\nHost: x\r\n${more}\r\n`
const last = call('Expect: 100-continue\r\n')
const lastWithBody = `POST ${path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}`
const refused = 'GET /../ HTTP/1.1\r\nHost: x\r\n\r\n'

/** What may stand behind a request, and is no request, or not the whole of one. */
const behind = {
  'half a head': 'GET /x HTT',
  'a request and half a head': `${call()}GET /x HTT`,
  'half a body': `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc`,
  garbage: 'garbage\r\n\r\n',
  'a request and garbage': `${call()}garbage\r\n\r\n`,
  'a broken chunk': `POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n`,
  'a head that is too large': `GET / HTTP/1.1\r\nX: ${'a'.repeat(50_000)}\r\n\r\n`,
}

for (const [first, bytes, responses] of [
  ['a request that ends its connection', last, [100, 200]],
  ['the body of one', lastWithBody, [100, 200]],
  ['a call and a refused request', call() + refused, [200, 400]],
] as const) {
  t.test(`nothing that stands behind ${first} costs an answer`, async (t) => {
    const before = requestCount
    const all = Object.entries(behind)
    const result = await Promise.all(all.map(([, rest]) => talk(port, bytes + rest)))
    for (const [i, { statuses, closed }] of result.entries()) {
      t.strictSame(statuses, responses, all[i]![0])
      t.ok(closed, 'and the connection ends')
    }
    t.equal(requestCount - before, all.length, 'nor is any of it taken for a call')
  })
}

t.test('what is no request costs no call ahead of it its answer, and ends the connection', async (t) => {
  const broken = [behind['half a head'], behind.garbage, behind['a head that is too large']]
  for (const ahead of [1, 3]) {
    const all = await Promise.all(broken.map((rest) => talk(port, call().repeat(ahead) + rest)))
    for (const [i, { statuses, closed }] of all.entries()) {
      t.strictSame(statuses, new Array(ahead).fill(200), `${ahead} calls, ${broken[i]!.slice(0, 20)}`)
      t.ok(closed)
    }
  }
})

t.test('nor of one whose answer has begun', async (t) => {
  const begun = await sellerOf(t, (_req, res) => {
    res.write('{"done":')
    setTimeout(() => res.end('true}'), WORK_MS)
  })
  const link = await addLink({ slug: 'begun', url: begun.url })
  for (const rest of ['GET /x HTT', 'garbage\r\n\r\n']) {
    const socket = await openSocket(t, port)
    let text = ''
    socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
    socket.write(call('', link.path))
    await until(() => text.includes('"done"'), 'the answer to begin')
    socket.write(rest)
    await once(socket, 'close')
    t.match(text, /true\}\r\n0\r\n\r\n$/, rest)
  }
})

t.test('half a request behind a call is given up together with the call', async (t) => {
  for (const rest of [behind['half a body'], behind['a broken chunk']]) {
    const { statuses, closed } = await talk(port, call() + rest)
    t.strictSame(statuses, [], rest)
    t.ok(closed)
  }
})

t.test('nor does what stands behind a call whose connection ends because the gateway stops', async (t) => {
  const stopping = await start()
  const before = requestCount
  const early = talk(stopping.port, `${call('', stopping.path)}GET /x HTT`)
  const late = await Promise.all(
    ['GET /x HTT', 'garbage\r\n\r\n'].map(async (rest) => {
      const socket = await openSocket(t, stopping.port)
      let text = ''
      socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
      socket.write(call('', stopping.path))
      return { socket, rest, text: once(socket, 'close').then(() => text) }
    }),
  )
  await until(() => requestCount === before + 3, 'the calls to reach the seller')
  const closed = stopping.gateway.close()
  for (const { socket, rest } of late) socket.write(rest)
  t.strictSame((await early).statuses, [200])
  for (const { text, rest } of late) t.match(await text, /^HTTP\/1\.1 200 .*\{"done":true\}$/s, rest)
  await closed
})

t.test('the body of such a request keeps its limits', async (t) => {
  const began = Date.now()
  const { statuses, closed } = await talk(port, lastWithBody.slice(0, -1))
  t.notOk(statuses.includes(200))
  t.ok(closed)
  t.ok(Date.now() - began < WORK_MS, 'no longer than any request may take')
})

t.test('who ends its side behind half a request is gone', async (t) => {
  for (const rest of ['', 'GET /x HTT', 'garbage\r\n\r\n']) {
    let came = 0
    let left = 0
    const patient = await sellerOf(t, (req) => {
      came++
      req.socket.once('close', () => left++)
    })
    const link = await addLink({ slug: `patient${rest.length}`, url: patient.url })
    const socket = await openSocket(t, port)
    socket.write(call('Expect: 100-continue\r\n', link.path) + rest)
    await until(() => came === 1, 'the call to reach the seller')
    socket.end()
    await until(() => left === 1, 'its call to the seller to end')
  }
})

t.test('the connection ends soon behind its answer, although the caller keeps it open', async (t) => {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  socket.resume()
  socket.write(`${last}GET /x HTT`)
  await once(socket, 'end')
  await sleep(5_500)
  // A write to a closed connection gets a reset, and the next one fails.
  const gone = new Promise<boolean>((resolve) => socket.once('close', () => resolve(true)))
  socket.write('P')
  await sleep(200)
  socket.write('P')
  t.ok(await Promise.race([gone, sleep(1_000, false)]))
})
