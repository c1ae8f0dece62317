import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { silentLog } from '../core/ports/log.ts'
import { AdminForwarder } from '../gateway/adminForwarder.ts'
import { type Fixture, startAdmin } from './helpers/admin-api/startAdmin.ts'
import { startGateway } from './helpers/gateway.ts'
import { openSocket, talk, until } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'

/** What the admin API says before it reads the body: to whom, and the code. */
interface Early {
  readonly status: number
  readonly code: string
  readonly key?: string
}

const body = Buffer.alloc(8_000_000, 0x61)
/** Posts of each kind; without the mend, one in three is lost. */
const posts = 50
const atOnce = 5

/** The admin API on a socket of its own behind a gateway, and the ways to be refused by it. */
async function startBoth(t: Test): Promise<{ port: number; admin: Fixture; early: readonly Early[] }> {
  const admin = await startAdmin(t, { limits: { keyPerMinute: 400 } })
  const { port: adminPort } = await admin.admin.listen({ host: '127.0.0.1', port: 0 })
  const forwarder = new AdminForwarder(() => `http://127.0.0.1:${adminPort}`, 10_000, silentLog)
  const { port } = await startGateway(t, { forwarder })
  const [allowed, spent] = [await admin.store(), await admin.store()]
  const used = () => admin.call('GET', '/api/v1/profile', { key: spent.key })
  while ((await used()).status !== 429);
  return {
    port,
    admin,
    early: [
      { status: 401, code: 'UNAUTHORIZED' },
      { status: 413, code: 'PAYLOAD_TOO_LARGE', key: allowed.key },
      { status: 429, code: 'RATE_LIMIT_EXCEEDED', key: spent.key },
    ],
  }
}

/** From just above the admin API's limit of 1 MiB to 8 MB; most are small, because sending is what the test takes its time for. */
const bytesOf = (post: number) => (post % 10 === 0 ? body.length : 1_100_000 + (post % 10) * 200_000)

const headOf = ({ key }: Early, bodyBytes: number, more = '') =>
  `POST /api/v1/links HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: ${bodyBytes}\r\n${
    key === undefined ? '' : `Authorization: Bearer ${key}\r\n`
  }${more}\r\n`

/** Writes head and whole body, listening all the while; the answer once the connection is closed or the answer whole. */
function post(port: number, early: Early, bodyBytes: number, more = ''): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (chunk) => (text += chunk.toString('latin1')))
  socket.on('close', () => resolve(text))
  socket.write(headOf(early, bodyBytes, more))
  // It ends its side when the other has: half closed before, it would count as gone.
  socket.write(body.subarray(0, bodyBytes))
  return promise
}

const wordsOf = (text: string) => ({
  status: Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1]),
  code: /"code":"(\w+)"/.exec(text)?.[1],
})

/** Runs tasks, a few at a time. */
async function each<T>(count: number, task: (n: number) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  for (let n = 0; n < count; n += atOnce)
    results.push(...(await Promise.all(Array.from({ length: atOnce }, (_, i) => task(n + i)))))
  return results
}

const both = await startBoth(t)

t.test('an early answer of the admin API reaches whoever is still sending', async (t) => {
  const { port, early } = both
  for (const one of early) {
    const { status, code } = one
    for (const more of ['', 'Connection: close\r\n']) {
      const result = await each(posts / 2, (n) => post(port, one, bytesOf(n), more))
      const wrong = result.filter((text) => wordsOf(text).status !== status || wordsOf(text).code !== code)
      t.strictSame(wrong, [], `${status}, raw sockets, ${more.trim() || 'kept alive'}`)
    }
    const fetched = await each(posts, async (n) => {
      const response = await fetch(`http://127.0.0.1:${port}/api/v1/links`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(one.key !== undefined && { authorization: `Bearer ${one.key}` }),
        },
        body: body.subarray(0, bytesOf(n)),
      })
      const { error } = (await response.json()) as { error: { code: string; requestId: string } }
      return { status: response.status, code: error.code, hasId: /^[\w-]{8,}$/.test(error.requestId) }
    })
    t.strictSame(fetched, Array(posts).fill({ status, code, hasId: true }), `${status}, fetch`)
  }
  t.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200, 'both go on')
})

t.test(
  'a sender that stops in the middle has the answer all the same, and no descriptor stays',
  async (t) => {
    const { port, early } = both
    const before = openSockets()
    for (const one of early) {
      const sockets = await Promise.all(Array.from({ length: 10 }, () => openSocket(t, port)))
      const responses = sockets.map(
        (socket) =>
          new Promise<string>((resolve) => {
            let text = ''
            socket.on('data', (chunk) => {
              text += chunk.toString('latin1')
              if (text.endsWith('}')) resolve(text)
            })
            socket.on('close', () => resolve(text))
            socket.write(headOf(one, body.length))
            socket.write(body.subarray(0, 65_536))
          }),
      )
      for (const text of await Promise.all(responses)) {
        t.match(wordsOf(text), { status: one.status, code: one.code })
      }
      // None of them ever sends the rest.
      for (const socket of sockets) socket.destroy()
    }
    await until(() => openSockets() <= before, 'every descriptor to be back')
  },
)

t.test('what follows an early answer on its connection is not taken for a request', async (t) => {
  const { port, early, admin } = both
  const { key } = early[1]!
  const hidden = `POST /api/agent/keys HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer ${key}\r\nContent-Length: 0\r\n\r\n`
  const keysOf = async () => (await admin.call('GET', '/api/agent/keys', { key: key! })).body.data.keys.length
  const before = await keysOf()
  for (const one of early) {
    const bodyBytes = 2_000_000
    const bytes = Buffer.concat([
      Buffer.from(headOf(one, bodyBytes)),
      Buffer.alloc(bodyBytes),
      Buffer.from(hidden),
    ])
    const { statuses, closed } = await talk(port, bytes)
    t.strictSame({ statuses, closed }, { statuses: [one.status], closed: true })
  }
  t.equal(await keysOf(), before, 'no key was made')
})

t.test(
  'an answer without the body read reaches a client that wants the connection closed, on links too',
  async (t) => {
    const seller = await startSeller(t, 'echo')
    const gateway = await startGateway(t)
    const { path } = await gateway.addLink({ slug: 'get-only', url: seller.url, methods: ['GET'] })
    const bodyBytes = 4_000_000
    const head = (target: string) =>
      `POST ${target} HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: ${bodyBytes}\r\n\r\n`
    for (const [target, status] of [
      [path, 405],
      ['/api/link/demo/none', 404],
      [`${path}/../x`, 400],
    ] as const) {
      const bytes = Buffer.concat([Buffer.from(head(target)), Buffer.alloc(bodyBytes)])
      const result = await each(10, () => talk(gateway.port, bytes))
      t.strictSame(
        result.map(({ statuses, closed }) => ({ statuses, closed })),
        Array(10).fill({ statuses: [status], closed: true }),
      )
    }
  },
)

const openSockets = () => readdirSync('/proc/self/fd').length
