import t, { type Test } from 'tap'
import type { Egress } from '../../../core/ports/egress.ts'
import { startSeller } from '../../../test/helpers/sellers.ts'
import { type Answer, startNameServer } from '../../../test/helpers/servers/nameServer.ts'
import { createEgress, type EgressOptions } from '../egress.ts'

// 127.0.0.2 stands for a public address: it is the one loopback address that is allowed here.
const allowed = '127.0.0.2'
const forbidden = '127.0.0.1'

function listen() {
  const warnings: { host?: string; addresses?: readonly string[] }[] = []
  const log = { debug() {}, info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) }
  return { warnings, log }
}

async function start(
  t: Test,
  respond: (name: string, type: 'A' | 'AAAA') => Answer,
  options: EgressOptions = {},
) {
  const names = await startNameServer(t, respond)
  const seller = await startSeller(t, 'hello', '0.0.0.0')
  const { warnings, log } = listen()
  const egress = createEgress({
    dnsServers: [names.address],
    allowPrivateCidrs: [`${allowed}/32`],
    log,
    ...options,
  })
  t.teardown(() => egress.close())
  return { egress, names, seller, warnings }
}

function get(egress: Egress, url: string) {
  return egress.request({ url, method: 'GET', timeoutMs: 10_000, maxBytes: 1_000 })
}

/** The address at which the seller was reached, by each open connection. */
const reachedAt = (seller: Awaited<ReturnType<typeof startSeller>>) =>
  [...seller.connections].map(({ localAddress }) => localAddress)

t.test('a name is dialled at the address it was judged by, and stays the Host', async (t) => {
  const { egress, seller, names } = await start(t, () => [allowed])
  const response = await get(egress, `http://seller.test:${seller.port}/path?x=1`)
  t.equal(response.status, 200)
  t.strictSame(reachedAt(seller), [allowed])
  t.match(seller.requests, [{ method: 'GET', target: '/path?x=1' }])
  const { rawHeaders } = seller.requests[0]!
  t.equal(
    rawHeaders[rawHeaders.findIndex((name) => name.toLowerCase() === 'host') + 1],
    `seller.test:${seller.port}`,
  )
  t.strictSame([...names.questions].sort(), ['A seller.test', 'AAAA seller.test'], 'asked once')
})

t.test(
  'a name that turns to a private address after it passed is refused on its next connection',
  async (t) => {
    let now = allowed
    const { egress, seller, warnings } = await start(t, () => [now])
    const pool = egress.pool(`http://rebind.test:${seller.port}`)
    t.teardown(() => pool.release())
    t.equal((await get(egress, `http://rebind.test:${seller.port}/`)).status, 200)

    now = forbidden
    for (const socket of seller.connections) socket.destroy()
    await t.rejects(egress.connect(new URL(`ws://rebind.test:${seller.port}`)), { code: 'EGRESS_REFUSED' })
    const error = await failureOf(pool)
    t.match(error, { code: 'EGRESS_REFUSED' })
    t.notMatch(error.message, /127|\d+\.\d+\.\d+/, 'a stranger does not learn which address it was')
    t.equal(error.cause, undefined)
    t.equal(seller.requests.length, 1, 'the seller’s neighbour was never reached')
    t.match(warnings, [{ host: 'rebind.test', addresses: [forbidden] }], 'the operator does, once')
    t.equal(warnings.length, 1)
  },
)

function failureOf(pool: ReturnType<Egress['pool']>): Promise<Error> {
  return new Promise((resolve, reject) => {
    const unexpected = () => reject(new Error('it answered'))
    pool.dispatch(
      { path: '/', method: 'GET', headers: [], body: null, headersTimeout: 10_000, bodyTimeout: 10_000 },
      {
        onRequestStart() {},
        onResponseStart: unexpected,
        onResponseData: unexpected,
        onResponseEnd: unexpected,
        onResponseError: (_controller, error) => resolve(error),
      },
    )
  })
}

t.test('one private address among a name’s addresses refuses the name, wherever it stands', async (t) => {
  const mixes: Record<string, readonly string[]> = {
    'last.test': [allowed, forbidden],
    'first.test': [forbidden, allowed],
    'v6.test': [allowed, '::1'],
    'mapped.test': [allowed, '::ffff:7f00:1'],
    'ula.test': [allowed, 'fd00::1'],
    'metadata.test': ['169.254.169.254'],
    'zero.test': ['0.0.0.0'],
  }
  const { egress, seller, warnings } = await start(t, (name) => mixes[name] ?? 'NXDOMAIN')
  for (const name of Object.keys(mixes)) {
    await t.rejects(get(egress, `http://${name}:${seller.port}/`), { code: 'EGRESS_REFUSED' }, name)
  }
  t.equal(seller.requests.length, 0)
  t.equal(warnings.length, Object.keys(mixes).length)
})

t.test(
  'localhost is this machine whatever a name server says, and is reached only where allowed',
  async (t) => {
    const { egress, seller, names } = await start(t, () => [allowed])
    await t.rejects(get(egress, `http://localhost:${seller.port}/`), { code: 'VALIDATION_ERROR' })

    const own = createEgress({ dnsServers: [names.address], allowPrivateCidrs: ['127.0.0.0/8'] })
    t.teardown(() => own.close())
    t.equal((await get(own, `http://localhost:${seller.port}/`)).status, 200)
    t.strictSame(reachedAt(seller), ['127.0.0.1'])
    t.strictSame(names.questions, [])
  },
)

t.test('a name server that fails, loops or falls silent gives a clean error in time', async (t) => {
  const result: Record<string, Answer> = {
    'missing.test': 'NXDOMAIN',
    'broken.test': 'SERVFAIL',
    'empty.test': [],
    'loop.test': { cname: 'loop.test' },
    'dangling.test': { cname: 'elsewhere.test' },
    'silent.test': 'silence',
  }
  const { egress, seller } = await start(t, (name) => result[name]!, { connectTimeoutMs: 400 })
  for (const name of Object.keys(result)) {
    const error = await get(egress, `http://${name}:${seller.port}/`).then(
      () => undefined,
      (error) => error,
    )
    t.match(error, { name: 'EgressError', code: /^EGRESS_(UNREACHABLE|TIMEOUT)$/ }, name)
    t.notMatch(error.message, /127\.0\.0/, name)
  }
  t.equal(seller.requests.length, 0)
})

t.test('a name with one silent address family is reached by the other', async (t) => {
  const { egress, seller } = await start(t, (_name, type) => (type === 'A' ? [allowed] : 'SERVFAIL'))
  t.equal((await get(egress, `http://half.test:${seller.port}/`)).status, 200)
})

t.test('connections that open at the same moment share a look-up; later ones ask again', async (t) => {
  const { egress, seller, names } = await start(t, () => [allowed])
  const connect = () => egress.connect(new URL(`ws://seller.test:${seller.port}`))
  const sockets = await Promise.all(Array.from({ length: 20 }, connect))
  t.equal(names.questions.length, 2)
  sockets.push(await connect())
  t.equal(names.questions.length, 4)
  for (const socket of sockets) socket.destroy()
})

t.test('the system’s resolver is used where no name server is named', async (t) => {
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
  t.teardown(() => egress.close())
  await t.rejects(get(egress, 'http://does-not-exist.invalid/'), { code: /^EGRESS_(UNREACHABLE|TIMEOUT)$/ })
})
