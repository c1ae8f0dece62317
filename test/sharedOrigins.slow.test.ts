import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createEgress } from '../adapters/egress/egress.ts'
import type { UpstreamHandler, UpstreamPool } from '../core/ports/egress.ts'
import { startGateway, type TestGateway } from './helpers/gateway.ts'
import { get } from './helpers/impatient.ts'
import { pluginOf } from './helpers/plugins.ts'
import { openSocket, until } from './helpers/rawHttp.ts'
import { recoveryOf } from './helpers/recovery.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment, testPayTo } from './helpers/settler.ts'

interface Options {
  readonly connections: number
  readonly upstream?: object
  /** One named `late` stands behind the others. */
  readonly plugins?: Parameters<typeof pluginOf>[]
}

/** A gateway with few connections to a seller, payments that are used once, and a second store. */
async function start(t: Test, { connections, upstream = {}, plugins = [] }: Options) {
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, {
    settlers: [settler],
    extraPlugins: plugins.map((one) => pluginOf(...one)),
    plugins: [
      ...plugins.filter(([use]) => use !== 'late').map(([use]) => ({ use })),
      { use: 'x402' },
      { use: 'replay-guard' },
      { use: 'upstream', with: { slotTimeoutMs: 9_000, ...upstream } },
      { use: 'purchase-record' },
      ...plugins.filter(([use]) => use === 'late').map(([use]) => ({ use })),
    ],
    adapt: (ports) => {
      const egress = createEgress({
        allowPrivateCidrs: ['127.0.0.0/8'],
        connectionsPerOrigin: connections,
        idlePoolMs: 1,
      })
      t.teardown(() => egress.close())
      return { ...ports, egress }
    },
  })
  const rival = await addRival(gateway)
  let count = 0
  const pay = () => ({ 'payment-signature': scriptedPayment(`place-${count++}`, '100000') })
  return { settler, gateway, rival, pay }
}

/** @returns the address of a free link of another store to the same seller */
async function addRival({ store, addLink, url }: TestGateway) {
  const storeId = randomUUID()
  const times = { createdAtMs: 0, updatedAtMs: 0 }
  const names = { username: 'rival', displayName: 'Rival', bio: '', avatarUrl: '' }
  const key = { id: randomUUID(), storeId, name: 'k', keyPrefix: 'tg_live_', keyHash: randomUUID() }
  await store.stores.create(
    {
      ...{ ...names, ...times, id: storeId, developerModeEnabled: true, createdBy: 'operator' },
      payout: { base: testPayTo, solana: null },
    },
    null,
    { ...key, isActive: true, lastUsedAtMs: null, revokedAtMs: null, createdAtMs: 0 },
  )
  return async (slug: string, target: string) => {
    await addLink({ slug, url: target, storeId } as Parameters<typeof addLink>[0])
    return { path: `/api/link/rival/${slug}`, url: `${url}/api/link/rival/${slug}` }
  }
}

/**
 * A seller that answers at once, but for `/endless` (as fast as it is read), `/silent` (never), `/drip` (a piece at a time) and `/held`
 * (once it is told to: a paid call that has reached it holds its connection until then, whether its buyer is there or not).
 */
async function seller(t: Test) {
  const { promise: isTold, resolve: answerHeld } = Promise.withResolvers<void>()
  const own = await sellerOf(t, (req, res) => {
    if (req.url === '/silent') return
    if (req.url === '/held') return void isTold.then(() => res.end('held'))
    if (req.url === '/upload') return void req.on('end', () => res.end('all')).resume()
    if (req.url === '/drip') {
      const timer = setInterval(() => res.write('x'), 50)
      return void res.on('close', () => clearInterval(timer))
    }
    if (req.url !== '/endless')
      return void res.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    const piece = Buffer.alloc(64 * 1024)
    const more = () => {
      while (!res.destroyed && res.write(piece));
    }
    res.on('drain', more)
    more()
  })
  return Object.assign(own, { answerHeld })
}

const upgrade =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'

/** Ways to hold a connection to a seller for nothing. */
const holders = {
  'reads nothing': { path: '/endless', hold: (socket: Socket) => void socket.pause() },
  'reads a byte now and then': {
    path: '/endless',
    hold(socket: Socket) {
      socket.pause()
      const timer = setInterval(() => void socket.read(1), 100)
      socket.on('close', () => clearInterval(timer))
    },
  },
  'reads all, for ever': { path: '/endless', hold: (socket: Socket) => void socket.resume() },
  'reads what drips': { path: '/drip', hold: (socket: Socket) => void socket.resume() },
  'asks what is never answered': { path: '/silent', hold: (socket: Socket) => void socket.resume() },
  'sends a byte now and then': {
    path: '/upload',
    hold(socket: Socket) {
      const timer = setInterval(() => socket.write('1\r\nx\r\n'), 100)
      socket.on('close', () => clearInterval(timer))
    },
  },
}

const upload = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n`

t.test('whoever holds every connection for nothing, others are served, and sales come first', async (t) => {
  await Promise.all(
    Object.entries(holders).map(async ([name, { path, hold }]) => {
      const own = await seller(t)
      const { gateway, rival, pay, settler } = await start(t, { connections: 4 })
      const attack = await rival('attack', own.url + path)
      const sale = await gateway.addLink({ slug: 'sale', url: own.url, price: '0.10' })
      const first = await gateway.addLink({ slug: 'first', url: own.url, price: '0.10', settle: 'before' })
      const free = await gateway.addLink({ slug: 'free', url: own.url })
      const sockets: Socket[] = []
      for (let i = 0; i < 8; i++) {
        const socket = await openSocket(t, gateway.port)
        sockets.push(socket)
        socket.write(path === '/upload' ? upload(attack.path) : get(attack.path))
        hold(socket)
      }
      await until(() => own.calls === 4, `${name}: every connection to be held`)
      for (const link of [sale, first]) t.equal((await fetch(link.url, { headers: pay() })).status, 200, name)
      t.equal(settler.transfers.length, 2)
      t.equal(own.calls, 6, `${name}: the others still wait`)
      t.equal((await fetch(free.url)).status, 200, `${name}: a free call`)
      for (const socket of sockets) socket.destroy()
      await until(() => own.connections.size <= 4, `${name}: the connections to be given back`)
    }),
  )
})

t.test(
  'in one store, sales are served while free readers without an end hold every connection',
  async (t) => {
    const own = await seller(t)
    const { gateway, pay } = await start(t, { connections: 3 })
    const endless = await gateway.addLink({ slug: 'endless', url: `${own.url}/endless` })
    const sale = await gateway.addLink({ slug: 'sale', url: own.url, price: '0.10' })
    const first = await gateway.addLink({ slug: 'first', url: own.url, price: '0.10', settle: 'before' })
    for (let i = 0; i < 6; i++) {
      const socket = await openSocket(t, gateway.port)
      socket.write(get(endless.path))
      socket.resume()
    }
    await until(() => own.calls === 3)
    const responses = [sale, first, sale, first].map((link) => fetch(link.url, { headers: pay() }))
    t.strictSame(
      (await Promise.all(responses)).map(({ status }) => status),
      [200, 200, 200, 200],
    )
  },
)

t.test('a sale that gets no connection is 503 with nothing asked and nothing charged', async (t) => {
  const own = await seller(t)
  const { gateway, pay, settler } = await start(t, { connections: 1, upstream: { slotTimeoutMs: 100 } })
  const held = await gateway.addLink({ slug: 'held', url: `${own.url}/silent`, price: '0.10' })
  const abort = new AbortController()
  const holding = fetch(held.url, { headers: pay(), signal: abort.signal }).catch(() => undefined)
  await until(() => own.calls === 1)
  const { verify } = settler.calls
  for (const settle of ['after', 'before'] as const) {
    const link = await gateway.addLink({ slug: settle, url: own.url, price: '0.10', settle })
    const headers = pay()
    const refused = await fetch(link.url, { headers })
    t.match(
      [refused.status, refused.headers.get('retry-after'), refused.headers.has('payment-response')],
      [503, '1', true],
    )
    t.match(await refused.json(), { error: { code: 'upstream_busy', message: /You were not charged/ } })
    t.equal(settler.calls.verify, verify, 'the chain was not asked')
    t.strictSame([settler.transfers.length, own.calls], [0, 1])
  }
  abort.abort()
  await holding
})

t.test('the same payment buys the call once there is room', async (t) => {
  const own = await seller(t)
  const { gateway, pay, settler } = await start(t, { connections: 1, upstream: { slotTimeoutMs: 100 } })
  const held = await gateway.addLink({ slug: 'held', url: `${own.url}/held`, price: '0.10' })
  const sale = await gateway.addLink({ slug: 'sale', url: own.url, price: '0.10', settle: 'before' })
  const holding = fetch(held.url, { headers: pay() })
  await until(() => own.calls === 1)
  const headers = pay()
  t.equal((await fetch(sale.url, { headers })).status, 503)
  own.answerHeld()
  t.equal((await holding).status, 200)
  t.equal((await fetch(sale.url, { headers })).status, 200)
  t.equal((await fetch(sale.url, { headers })).status, 200, 'and a repeat needs no connection')
  t.strictSame([settler.transfers.length, own.calls], [2, 2])
})

t.test(
  'a charged call that comes back and gets no connection is served when it comes once more',
  async (t) => {
    const own = await seller(t)
    const { gateway, pay, settler } = await start(t, { connections: 1, upstream: { slotTimeoutMs: 100 } })
    const held = await gateway.addLink({ slug: 'held', url: `${own.url}/held`, price: '0.10' })
    const first = await gateway.addLink({ slug: 'first', url: own.url, price: '0.10', settle: 'before' })
    const headers = pay()
    settler.settleWith = async (transfer) => ({
      ...{ status: 'pending', transaction: transfer(), reason: 'settlement_pending' },
    })
    t.equal((await fetch(first.url, { headers })).status, 503, 'nobody waits any more, and then it lands')
    settler.settleWith = async () => undefined
    await recoveryOf(gateway).round()
    const holding = fetch(held.url, { headers: pay() })
    await until(() => own.calls === 1)
    for (let turn = 0; turn < 2; turn++) {
      const busy = await fetch(first.url, { headers })
      t.match([busy.status, busy.headers.get('retry-after')], [503, '1'])
      const { error, purchaseId } = (await busy.json()) as { error: object; purchaseId: string }
      t.match(error, {
        code: 'upstream_busy',
        retryable: true,
        message: /You were charged. Repeat the same call/,
      })
      t.equal(purchaseId, busy.headers.get('x-purchase-id') ?? purchaseId)
    }
    const elsewhere = await fetch(held.url, { headers })
    t.match(await elsewhere.json(), { error: { reason: 'charged_refund_owed', message: /Repeat the call/ } })
    own.answerHeld()
    t.equal((await holding).status, 200)
    t.equal(own.calls, 1, 'the seller was not asked')
    t.equal((await fetch(first.url, { headers })).status, 200)
    t.equal((await fetch(first.url, { headers })).status, 200, 'and gets it again')
    t.strictSame([settler.transfers.length, own.calls], [2, 2])
    t.match(await gateway.store.purchases.ledgerCheck(), {
      purchases: 2,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  },
)

/** The one place is free: a free call gets it. */
const isBack = async (t: Test, url: string, how: string) => t.equal((await fetch(url)).status, 200, how)

t.test('a slot is free again however a call ends', async (t) => {
  const own = await seller(t)
  /** What a plugin of its own does with a call while it holds its place, or after that, in one phase. */
  let act: { in: string; with: () => unknown } = { in: '', with: () => undefined }
  const hook = (phase: string) => () => (act.in === phase ? act.with() : undefined) as undefined
  const phases = ['verify', 'forward', 'settle', 'record', 'respond'] as const
  let ended = 0
  const early = Object.fromEntries(phases.map((phase) => [phase, hook(phase)]))
  const { gateway, pay, settler } = await start(t, {
    connections: 1,
    upstream: { slotTimeoutMs: 200, headersTimeoutMs: 150, responseTimeoutMs: 300 },
    plugins: [
      ['early', { ...early, log: () => void ended++ }],
      ['late', { claim: hook('claim') }],
    ],
  })
  const free = await gateway.addLink({ slug: 'free', url: own.url })
  const bad = await sellerOf(t, (req, res) => {
    if (req.url === '/500') res.writeHead(500).end()
    else if (req.url === '/reset') req.socket.resetAndDestroy()
    else if (req.url === '/404') res.writeHead(404).end('no')
    else if (req.url === '/head') res.writeHead(200, { 'x-long': 'x'.repeat(60_000) }).end()
    else if (req.url === '/') res.end('ok')
  })
  const other = await gateway.addLink({ slug: 'other', url: bad.url })
  for (const settle of ['after', 'before'] as const) {
    const linkTo = (slug: string, url: string) =>
      gateway.addLink({ slug: `${slug}-${settle}`, url, price: '0.10', settle })
    const sale = await linkTo('sale', own.url)
    const call = async (init: RequestInit = {}, { url } = sale) =>
      (await fetch(url, { headers: pay(), ...init }).catch(() => ({ status: 0 }))).status
    t.equal(await call(), 200)
    await isBack(t, free.url, `${settle}: served`)
    const failing = { ok: false as const, reason: 'insufficient_funds', message: 'no' }
    for (const [how, verifyWith] of Object.entries({
      refused: async () => failing,
      'the chain is away': async () => ({ ...failing, transient: true }),
      'verify throws': async () => Promise.reject(new Error('broken')),
    })) {
      settler.verifyWith = verifyWith as typeof settler.verifyWith
      t.ok((await call()) >= 400)
      await isBack(t, free.url, `${settle}: ${how}`)
    }
    settler.verifyWith = async () => ({ ok: true })
    for (const [how, settleWith] of Object.entries({
      'failed on chain': async () => ({ status: 'failed_final', reason: 'reverted', transaction: '0x1' }),
      'not known': async () => ({ status: 'pending', reason: 'unseen', transaction: '0x1' }),
      'settle throws': async () => Promise.reject(new Error('broken')),
    })) {
      settler.settleWith = settleWith as typeof settler.settleWith
      t.ok((await call()) >= 400)
      await isBack(t, free.url, `${settle}: ${how}`)
    }
    settler.settleWith = async () => undefined
    // A stream that was charged first has no respond behind it.
    for (const phase of ['claim', ...phases].slice(0, settle === 'after' ? 6 : 5)) {
      const doing = (way: () => unknown) => (act = { in: phase, with: way })
      doing(() => {
        throw new Error('a plugin of its own')
      })
      t.equal(await call(), 500, phase)
      doing(() => ({ status: 418, headers: [], body: null }))
      t.equal(await call(), 418, phase)
      doing(() => undefined)
      await isBack(t, free.url, `${settle}: a plugin ends it in ${phase}`)
      const [begun, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      doing(() => {
        begun.resolve()
        return gone.promise
      })
      const socket = await openSocket(t, gateway.port)
      socket.write(get(sale.path, `payment-signature: ${pay()['payment-signature']}\r\n`))
      await begun.promise
      act.in = ''
      const ends = ended
      socket.destroy()
      setTimeout(gone.resolve, 20)
      await until(() => ended > ends)
      await isBack(t, free.url, `${settle}: the buyer leaves in ${phase}`)
    }
    for (const path of ['500', 'reset', '404', 'head', 'silent']) {
      const link = await linkTo(`bad-${path}`, `${bad.url}/${path}`)
      t.ok((await call({}, link)) >= 400, path)
      await isBack(t, other.url, `${settle}: the seller does ${path}`)
    }
    const short = `POST ${sale.path} HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\npayment-signature: ${pay()['payment-signature']}\r\n\r\nabc`
    const socket = await openSocket(t, gateway.port)
    socket.write(short)
    await isBack(t, free.url, `${settle}: a body is waited for`)
    socket.destroy()
    await isBack(t, free.url, `${settle}: a body that never came`)
  }
})

t.test('a reload while places are held and waited for neither loses nor makes one', async (t) => {
  const own = await seller(t)
  const { gateway, pay } = await start(t, { connections: 1, upstream: { slotTimeoutMs: 300 } })
  const held = await gateway.addLink({ slug: 'held', url: `${own.url}/silent`, price: '0.10' })
  const free = await gateway.addLink({ slug: 'free', url: own.url })
  const abort = new AbortController()
  const holding = fetch(held.url, { headers: pay(), signal: abort.signal }).catch(() => undefined)
  await until(() => own.calls === 1)
  const waiting = fetch(free.url)
  const next = await gateway.build([{ use: 'upstream', with: { slotTimeoutMs: 300 } }])
  const { retired } = await gateway.gateway.swap(next)
  t.equal((await fetch(free.url)).status, 503, 'the place is held by a call of before')
  t.equal((await waiting).status, 503)
  abort.abort()
  await holding
  await retired
  await isBack(t, free.url, 'and comes back with it')
  await (await gateway.gateway.swap(await gateway.build([]))).retired
  await until(
    () => own.connections.size === 0,
    'the connections of an origin without links and calls to be closed',
  )
})

t.test(
  'callers who leave while a connection is made have no more of them made than there are places',
  async (t) => {
    const handlers: UpstreamHandler[] = []
    let references = 0
    const pool: UpstreamPool = {
      connections: 3,
      dispatch: (_request, handler) => void handlers.push(handler) as never,
      release: () => void references--,
    }
    const refer = () => {
      references++
      return pool
    }
    const settler = createScriptedSettler()
    let ended = 0
    const gateway = await startGateway(t, {
      settlers: [settler],
      extraPlugins: [pluginOf('early', { log: () => void ended++ })],
      plugins: [
        { use: 'early' },
        { use: 'x402' },
        { use: 'replay-guard' },
        { use: 'upstream', with: { slotTimeoutMs: 100, headersTimeoutMs: 100 } },
        { use: 'purchase-record' },
      ],
      adapt: (ports) => ({ ...ports, egress: { ...ports.egress, pool: refer } }),
    })
    const url = 'http://127.0.0.1:9'
    const free = await gateway.addLink({ slug: 'free', url })
    const sale = await gateway.addLink({ slug: 'sale', url, price: '0.10' })
    let payments = 0
    const requests = {
      free: () => get(free.path),
      paid: () => get(sale.path, `payment-signature: ${scriptedPayment(`gone-${payments++}`, '100000')}\r\n`),
      socket: () => get(free.path, upgrade),
    }
    for (const [i, [how, request]] of Object.entries(requests).entries()) {
      const socket = await openSocket(t, gateway.port)
      socket.write(request())
      await until(() => handlers.length === i + 1, `${how}: a connection to be asked for`)
      socket.destroy()
      await until(() => ended === i + 1, `${how}: the call to end`)
    }
    t.equal((await fetch(free.url, { signal: AbortSignal.timeout(2_000) })).status, 503)
    t.equal(handlers.length, 3)
    t.strictSame(settler.transfers, [])
    let aborted = 0
    const controller = { pause() {}, resume() {}, abort: () => void aborted++ }
    for (const handler of handlers.slice(0, 2)) handler.onRequestStart(controller)
    handlers[2]!.onResponseError(null, new Error('no connection'))
    t.equal(aborted, 2, 'who has left is asked for no more')
    for (let i = 3; i < 6; i++) {
      void fetch(free.url).catch(() => {})
      await until(() => handlers.length === i + 1, 'the places to come back')
    }
    for (const handler of handlers) handler.onResponseError(null, new Error('no connection'))
    await (await gateway.gateway.swap(await gateway.build([]))).retired
    await until(() => references === 0, 'the pool to be given back')
  },
)

t.test('calls that wait and are given up leave nothing behind', async (t) => {
  const own = await seller(t)
  let ended = 0
  const { gateway, pay, settler } = await start(t, {
    connections: 1,
    plugins: [['early', { log: () => void ended++ }]],
  })
  const held = await gateway.addLink({ slug: 'held', url: `${own.url}/held`, price: '0.10' })
  const free = await gateway.addLink({ slug: 'free', url: own.url })
  const holding = fetch(held.url, { headers: pay() })
  await until(() => own.calls === 1)
  const checks = settler.calls.check
  const sale = await gateway.addLink({ slug: 'sale', url: own.url, price: '0.10', settle: 'before' })
  const sockets = await Promise.all(Array.from({ length: 20 }, () => openSocket(t, gateway.port)))
  for (const [i, socket] of sockets.entries()) {
    const { path } = i % 2 === 0 ? free : sale
    socket.write(get(path, `payment-signature: ${pay()['payment-signature']}\r\n`))
  }
  await until(() => settler.calls.check === checks + 10)
  for (const socket of sockets) socket.destroy()
  await until(() => ended === 20)
  own.answerHeld()
  t.equal((await holding).status, 200)
  await isBack(t, free.url, 'a free call')
  t.equal((await fetch(sale.url, { headers: pay() })).status, 200)
  t.equal(settler.transfers.length, 2, 'nobody who left was charged')
})
