import t, { type Test } from 'tap'
import { silentLog } from '../core/ports/log.ts'
import { AdminForwarder } from '../gateway/adminForwarder.ts'
import { startGateway } from './helpers/gateway.ts'
import { pluginOf } from './helpers/plugins.ts'
import { openSocket, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { deadOrigin, startSeller } from './helpers/sellers.ts'
import { createScriptedSettler } from './helpers/settler.ts'

const seller = await startSeller(t, 'hello')
/** Answers ahead of every body, and reads none. */
const requests: string[] = []
const hasty = await sellerOf(t, (req, res) => {
  requests.push(req.url!)
  res.writeHead(404, { 'content-length': 2 }).end('{}')
})
const refuser = pluginOf('refuser', {
  guard: (x) =>
    x.link.slug === 'guarded' ? { status: 403, headers: ['Content-Length', '0'], body: null } : undefined,
})
const gateway = await startGateway(t, {
  settlers: [createScriptedSettler()],
  extraPlugins: [refuser],
  plugins: [
    { use: 'refuser' },
    { use: 'x402' },
    { use: 'replay-guard' },
    { use: 'upstream', with: { maxRequestBytes: 50 } },
    { use: 'purchase-record' },
  ],
  forwarder: new AdminForwarder(() => hasty.url, 5_000, silentLog),
})
const ownGateway = await startGateway(t, {
  plugins: [{ use: 'upstream' }],
  forwarder: new AdminForwarder(() => hasty.url, 5_000, silentLog),
})
const free = await gateway.addLink({ slug: 'free', url: seller.url, methods: ['POST', 'GET', 'OPTIONS'] })
const links = {
  paid: await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' }),
  guarded: await gateway.addLink({ slug: 'guarded', url: seller.url }),
  dead: await gateway.addLink({ slug: 'dead', url: await deadOrigin() }),
  get: await gateway.addLink({ slug: 'get', url: seller.url, methods: ['GET'] }),
}
const hastyLink = await ownGateway.addLink({ slug: 'hasty', url: hasty.url })
const afterIt = await ownGateway.addLink({ slug: 'free', url: seller.url })

interface Early {
  readonly port: number
  readonly line: string
  /** A link to ask for next on the same connection. */
  readonly next: string
  readonly more?: string
  /** A body up to 64 KiB is read before the call goes on. */
  readonly readsShort?: true
  /** So is one in chunks, up to the limit. */
  readonly readsChunked?: true
}

/** What is answered before its body has been read, and by which gateway. */
const early: Record<string, Early> = {
  'no payment': { port: gateway.port, line: `POST ${links.paid.path}`, next: free.path },
  'a payment that can not be read': {
    port: gateway.port,
    line: `POST ${links.paid.path}`,
    next: free.path,
    more: 'Payment-Signature: nonsense\r\n',
  },
  'a plugin': { port: gateway.port, line: `POST ${links.guarded.path}`, next: free.path },
  'a method that the link does not take': {
    port: gateway.port,
    line: `PUT ${links.get.path}`,
    next: free.path,
  },
  'no link there': { port: gateway.port, line: 'POST /api/link/demo/none', next: free.path },
  'an address that can not be': { port: gateway.port, line: 'POST /api/link/demo', next: free.path },
  'a coding that nobody knows': {
    port: gateway.port,
    line: `POST ${free.path}`,
    next: free.path,
    more: 'Content-Encoding: nonsense\r\n',
  },
  'a preflight': {
    port: gateway.port,
    line: `OPTIONS ${free.path}`,
    next: free.path,
    more: 'Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n',
  },
  'an API that is down': {
    port: gateway.port,
    line: `POST ${links.dead.path}`,
    next: free.path,
    readsShort: true,
  },
  'more than is forwarded': {
    port: gateway.port,
    line: `POST ${free.path}`,
    next: free.path,
    readsChunked: true,
  },
  'the admin API': { port: gateway.port, line: 'POST /api/v1/links', next: free.path },
  'an API that reads no body': {
    port: ownGateway.port,
    line: `POST ${hastyLink.path}`,
    next: afterIt.path,
    readsShort: true,
  },
}

/** Bodies that hold a request: what a server that has lost count would take for one. */
const smuggled = 'GET /api/link/demo/free/smuggled HTTP/1.1\r\nHost: g\r\n\r\n'
const sizes = { small: 1, 'as much as node buffers': 300, 'more than that': 3_000 }

/** Sends a part of the body, and the rest with the next request once the answer has begun. */
async function exchange(
  t: Test,
  one: (typeof early)[string],
  isChunked: boolean,
  copies: number,
  ahead: number,
) {
  const body = smuggled.repeat(copies)
  const framed = isChunked ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body
  const framing = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
  const socket = await openSocket(t, one.port)
  let text = ''
  let isClosed = false
  socket.on('data', (piece: Buffer) => (text += piece.toString('latin1')))
  socket.on('close', () => (isClosed = true))
  const cut = Math.floor(framed.length * ahead)
  socket.write(
    `${one.line} HTTP/1.1\r\nHost: g\r\n${framing}\r\n${one.more ?? ''}\r\n${framed.slice(0, cut)}`,
  )
  const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((found) => Number(found[1]))
  if (ahead < 1) await until(() => isClosed || statuses().length > 0, 'an answer ahead of the body')
  socket.write(`${framed.slice(cut)}GET ${one.next}/next HTTP/1.1\r\nHost: g\r\n\r\n`)
  await until(() => isClosed || statuses().length > 1, 'the end of the connection, or the next answer')
  // What would have been taken for requests is asked for by now as well.
  await (await fetch(`http://127.0.0.1:${one.port}${one.next}/last`)).text()
  socket.destroy()
  return { statuses: statuses(), saysClose: /\r\nconnection: close\r\n/i.test(text) }
}

for (const [name, one] of Object.entries(early)) {
  t.test(`what is answered before its body was read takes the body with it: ${name}`, async (t) => {
    for (const [size, copies] of Object.entries(sizes)) {
      for (const isChunked of [false, true])
        for (const ahead of [1, 0.5]) {
          // Who has to be asked first waits for a short body, and for one whose length is not stated.
          const isWaitedFor = !isChunked && copies < 1_500 && one.readsShort
          if ((ahead < 1 && isWaitedFor) || (isChunked && one.readsChunked)) continue
          const before = seller.requests.length
          const { statuses, saysClose } = await exchange(t, one, isChunked, copies, ahead)
          const what = `${size}, ${isChunked ? 'chunked' : 'length'}, ${ahead}`
          t.equal(statuses.length, saysClose ? 1 : 2, `${what}: ${statuses}`)
          if (!saysClose) t.equal(statuses[1], 200, what)
          const targets = seller.requests.slice(before).map(({ target }) => target)
          t.notOk(
            targets.some((target) => target.includes('smuggled')),
            what,
          )
        }
    }
  })
}

t.test('nothing of it reached the admin API, or the seller that reads nothing, either', async (t) => {
  t.notOk(requests.some((url) => url.includes('smuggled')))
})
