import t from 'tap'
import { buildGeneration } from '../core/kernel/generation.ts'
import { prototypeLinks } from '../core/kernel/prototypeLinks.ts'
import { type AnyGatewayPlugin, gatewayPlugin } from '../core/plugin/gateway.ts'
import { silentLog } from '../core/ports/log.ts'
import { newCalls, runCall } from '../gateway/call.ts'
import { startGateway } from './helpers/gateway.ts'
import { callThrough, MemoryTransport } from './helpers/memoryTransport.ts'
import { noOptions, pluginOf, withUpstream } from './helpers/plugins.ts'
import { openSocket, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler } from './helpers/settler.ts'

t.test('200 reloads under load: no call fails, and every old generation closes', async (t) => {
  const seller = await startSeller(t, 'hello')
  let [opened, closed, started] = [0, 0, 0]
  const counted = gatewayPlugin({
    name: 'counted',
    api: 1,
    options: noOptions,
    needs: [],
    setup: () => {
      opened++
      let isClosed = false
      return {
        route: () => ({
          guard: async () => {
            if (isClosed) throw new Error('closed')
          },
        }),
        start: () => void started++,
        close: () => {
          isClosed = true
          closed++
        },
      }
    },
  }) as AnyGatewayPlugin
  const settler = createScriptedSettler()
  const uses = [
    { use: 'counted' },
    { use: 'rate-limit', with: { points: 1_000_000 } },
    { use: 'health', with: { probe: false } },
    { use: 'x402' },
    { use: 'replay-guard' },
    { use: 'upstream' },
    { use: 'purchase-record' },
    { use: 'metrics' },
  ]
  const gateway = await startGateway(t, { settlers: [settler], extraPlugins: [counted], plugins: uses })
  const links = await Promise.all(
    [1, 2, 3].map((i) => gateway.addLink({ slug: `free-${i}`, url: seller.url })),
  )
  let isDone = false
  const statuses = new Set<number>()
  let calls = 0
  const callers = Array.from({ length: 8 }, async (_, i) => {
    while (!isDone) {
      const response = await fetch(links[i % 3]!.url)
      await response.arrayBuffer()
      statuses.add(response.status)
      calls++
    }
  })
  const retired: Promise<void>[] = []
  for (let i = 0; i < 200; i++) {
    retired.push((await gateway.gateway.swap(await gateway.build(uses))).retired)
    const soFar = calls
    await until(() => calls > soFar)
    if (i % 10 === 0) gateway.ports.changes.publish({ kind: 'store', username: 'demo' })
  }
  isDone = true
  await Promise.all([...callers, ...retired])
  t.strictSame([...statuses], [200], `${calls} calls`)
  t.ok(calls > 200)
  t.strictSame({ opened, started, closed }, { opened: 201, started: 201, closed: 200 })
})

t.test('a generation that does not start leaves the old one running', async (t) => {
  let closed = 0
  const stubborn = pluginOf(
    'stubborn',
    {},
    {
      start: () => {
        throw new Error('port in use')
      },
      close: () => void closed++,
    },
  )
  const seller = await startSeller(t, 'hello')
  const gateway = await startGateway(t, { extraPlugins: [stubborn] })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  await t.rejects(gateway.gateway.swap(await gateway.build(withUpstream('stubborn'))), {
    message: 'port in use',
  })
  t.equal(closed, 1)
  t.equal((await fetch(link.url)).status, 200)
})

t.test('a reload while a link is looked up does not call a closed plugin', async (t) => {
  const seller = await startSeller(t, 'hello')
  const mayRead = Promise.withResolvers<void>()
  let isSlow = true
  const gateway = await startGateway(t, {
    adapt: (ports) => ({
      ...ports,
      links: {
        ...ports.links,
        async served(username, slug) {
          if (isSlow) await mayRead.promise
          return ports.links.served(username, slug)
        },
      },
    }),
  })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const call = fetch(link.url)
  await new Promise((resolve) => setTimeout(resolve, 50))
  isSlow = false
  await (await gateway.gateway.swap(await gateway.build(withUpstream()))).retired
  mayRead.resolve()
  t.equal((await call).status, 200)
})

t.test('a call that came after a change is not served the link as it was before', async (t) => {
  const seller = await startSeller(t, 'mirror')
  const first = Promise.withResolvers<void>()
  let reads = 0
  const gateway = await startGateway(t, {
    adapt: (ports) => ({
      ...ports,
      links: {
        ...ports.links,
        async served(username, slug) {
          const link = await ports.links.served(username, slug)
          if (++reads === 1) await first.promise
          return link
        },
      },
    }),
  })
  const { id, url } = await gateway.addLink({ slug: 'free', url: `${seller.url}/old` })
  const before = fetch(url).then((r) => r.json())
  await until(() => reads === 1)
  await gateway.store.links.update(id, { url: `${seller.url}/new` }, Date.now())
  t.match(await (await fetch(url)).json(), { target: '/new' })
  first.resolve()
  t.match(await before, { target: '/old' })
  t.match(await (await fetch(url)).json(), { target: '/new' }, 'and what was read before is not kept')
})

t.test('closing drains: 500 open calls end well, none is cut', async (t) => {
  const mayGoOn = Promise.withResolvers<void>()
  const seller = await sellerOf(t, async (_req, res) => {
    await mayGoOn.promise
    res.end('done')
  })
  const closedPlugins: number[] = []
  let entered = 0
  const last = pluginOf('last', { guard: () => void entered++ }, { close: () => void closedPlugins.push(1) })
  const gateway = await startGateway(t, {
    extraPlugins: [last],
    plugins: [{ use: 'last' }, { use: 'upstream', with: { maxCallsPerOrigin: 1_000 } }],
    options: { drainTimeoutMs: 20_000 },
  })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  const responses = Array.from({ length: 500 }, () => fetch(link.url).then((r) => r.text()))
  // More than the egress has connections, so the others wait for one.
  await until(() => entered === 500)
  const closing = gateway.gateway.close()
  const isRefused = () =>
    openSocket(t, gateway.port).then(
      () => false,
      () => true,
    )
  await until(isRefused, 'further connections to be refused')
  t.strictSame(closedPlugins, [], 'plugins stay open while calls run')
  mayGoOn.resolve()
  t.strictSame([...new Set(await Promise.all(responses))], ['done'])
  await closing
  t.strictSame(closedPlugins, [1])
})

t.test('a call that never ends does not keep the gateway from closing', async (t) => {
  const never = pluginOf('never', { guard: () => new Promise<never>(() => {}) })
  const gateway = await startGateway(t, {
    extraPlugins: [never],
    plugins: withUpstream('never'),
    options: { drainTimeoutMs: 100 },
  })
  const link = await gateway.addLink({ slug: 'free', url: 'http://127.0.0.1:1' })
  const call = fetch(link.url).then(
    () => 'answered',
    () => 'cut',
  )
  await new Promise((resolve) => setTimeout(resolve, 50))
  await gateway.gateway.close()
  t.equal(await call, 'cut')
})

t.test('dropped link versions give their connections back', async (t) => {
  const released: string[] = []
  const acquired: string[] = []
  const gateway = await startGateway(t, {
    adapt: (ports) => ({
      ...ports,
      egress: {
        ...ports.egress,
        pool(origin, use) {
          const pool = ports.egress.pool(origin, use)
          acquired.push(origin)
          return {
            connections: pool.connections,
            dispatch: (o, h) => pool.dispatch(o, h),
            release() {
              released.push(origin)
              pool.release()
            },
          }
        },
      },
    }),
  })
  const prototypes = acquired.length
  t.equal(released.length, prototypes, 'those of the order check as well')
  const [one, two] = [await startSeller(t, 'hello'), await startSeller(t, 'hello')]
  const link = await gateway.addLink({ slug: 'a', url: one.url })
  const twin = await gateway.addLink({ slug: 'b', url: one.url })
  await Promise.all([fetch(link.url), fetch(twin.url)])
  t.strictSame(acquired.slice(prototypes), [one.url], 'links of one origin share')
  for (const { id } of [link, twin]) await gateway.store.links.update(id, { url: two.url }, Date.now())
  t.strictSame(released.slice(prototypes), [one.url])
  t.equal((await fetch(link.url)).status, 200)
  await (await gateway.gateway.swap(await gateway.build([{ use: 'upstream' }]))).retired
  t.strictSame(released.filter((origin) => origin === two.url).length, 1)
})

t.test(
  '200 generations with a call open in each: every call keeps its own plugins and slots to its end',
  async (t) => {
    const { ports } = await startGateway(t)
    const delivered: number[] = []
    const [built, disposed, closed] = [new Set<number>(), new Set<number>(), new Set<number>()]
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const pluginOfGeneration = (n: number) =>
      gatewayPlugin({
        ...{ name: 'keeping', api: 1, options: noOptions, needs: [] },
        ownSlots: { 'keeping/number': -1, ...(n % 2 === 0 && { 'keeping/other': '' }) },
        slots: { guard: { writes: ['keeping/number'] }, deliver: { reads: ['keeping/number'] } },
        setup: (_, { slot }) => {
          const number = slot('keeping/number')
          return {
            route: () => ({
              guard: (x) => number.set(x, n),
              forward: async () => {
                await held
                if (closed.has(n)) throw new Error('its plugin was closed under it')
                return { status: 204, headers: [], body: null }
              },
              deliver: (x) => void delivered.push(number.get(x)),
              dispose: () => {
                if (!built.has(n)) return
                disposed.add(n)
                throw new Error('can not dispose')
              },
            }),
            close: () => void closed.add(n),
          }
        },
      }) as AnyGatewayPlugin
    const calls: Promise<unknown>[] = []
    const retired: Promise<void>[] = []
    for (let n = 0; n < 200; n++) {
      const entry = { plugin: pluginOfGeneration(n), options: {}, when: { links: ['(any)/live'] } }
      const generation = await buildGeneration([entry], ports)
      built.add(n)
      const link = { ...prototypeLinks[0]!, slug: 'live' }
      const program = generation.compile(link)
      const transport = new MemoryTransport()
      runCall(callThrough(transport, link), program, generation, newCalls(silentLog))
      calls.push(transport.ended)
      program.dispose()
      retired.push(generation.retire())
    }
    t.equal(closed.size, 0, 'no plugin closes while its call is open')
    release()
    for (const got of await Promise.all(calls)) t.match(got, { status: 204 })
    await Promise.all(retired)
    t.strictSame(
      delivered,
      Array.from({ length: 200 }, (_, n) => n),
    )
    t.strictSame([disposed.size, closed.size], [200, 200])
  },
)
