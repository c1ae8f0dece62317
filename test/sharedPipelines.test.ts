import t from 'tap'
import { buildGeneration } from '../core/kernel/generation.ts'
import { prototypeLinks } from '../core/kernel/prototypeLinks.ts'
import type { RouteHooks } from '../core/plugin/gateway.ts'
import type { GatewayPorts } from '../core/plugin/ports.ts'
import { silentLog } from '../core/ports/log.ts'
import { newCalls, runCall } from '../gateway/call.ts'
import { callThrough, MemoryTransport } from './helpers/memoryTransport.ts'
import { startPaid } from './helpers/paid.ts'
import { pluginOf } from './helpers/plugins.ts'
import { startSeller } from './helpers/sellers.ts'
import { scriptedPayment, testPayTo } from './helpers/settler.ts'

// Links of one seller and price run one shared program and have one list of offers.

const otherWallet = '0x3333333333333333333333333333333333333333'
const changes = [
  { price: '0.20' },
  { settle: 'before' },
  { price: '0' },
  { methods: ['POST'] },
  { price: '0.10' },
  { settle: 'after', methods: [] },
  { price: '0.10', tags: ['new'] },
] as const

t.test(
  'whatever a seller does to a link while another that shares its program is called, the other stays as it is',
  async (t) => {
    const { gateway } = await startPaid(t)
    const { store, ports, addLink } = gateway
    const [own, other] = [await startSeller(t, 'hello'), await startSeller(t, 'hello')]
    const steady = await addLink({ slug: 'steady', url: `${own.url}/steady`, price: '0.10' })
    const moving = await addLink({ slug: 'moving', url: `${other.url}/moving`, price: '0.10' })
    const sealedFor = (id: string, key: string) => ports.sealer.seal(JSON.stringify({ 'X-Key': key }), id)
    for (const [id, key] of [
      [steady.id, 'steady'],
      [moving.id, 'moving'],
    ] as const)
      await store.links.update(id, { upstreamHeadersSealed: sealedFor(id, key) }, 1)
    let isOver = false
    let changed = 0
    const churn = (async () => {
      while (!isOver) {
        const given = changes[changed++ % changes.length]!
        await store.links.update(moving.id, given, changed)
        if (changed % 5 === 0) ports.changes.publish({ kind: 'store', username: 'demo' })
        await fetch(moving.url).then((response) => response.text())
      }
    })()
    const accepts = async () => {
      const response = await fetch(steady.url)
      t.equal(response.status, 402)
      return JSON.parse(await response.text()).accepts as { amount: string; payTo: string }[]
    }
    for (let n = 0; n < 40; n++) {
      t.match(await accepts(), [{ amount: '100000', payTo: testPayTo }])
      const pay = (url: string, nonce: string) =>
        fetch(url, { headers: { 'payment-signature': scriptedPayment(nonce, '100000') } })
      const responses = await Promise.all([pay(steady.url, `s${n}`), pay(moving.url, `m${n}`)])
      await Promise.all(responses.map((response) => response.text()))
    }
    isOver = true
    await churn
    t.ok(changed > 20, `${changed} changes`)
    const { purchases } = await store.purchases.page(gateway.storeId, { limit: 100 })
    t.ok(purchases.length >= 30, `${purchases.length} purchases`)
    for (const { linkId, amountAtomic } of purchases)
      t.ok(linkId !== steady.id || amountAtomic === 100_000n, `${amountAtomic}`)
    const keysOf = (seller: typeof own) =>
      new Set(
        seller.requests.map(
          ({ rawHeaders }) => rawHeaders[rawHeaders.findIndex((h) => h.toLowerCase() === 'x-key') + 1],
        ),
      )
    t.strictSame([...keysOf(own)], ['steady'])
    t.strictSame([...keysOf(other)], ['moving'])
    t.ok(own.requests.every(({ target }) => target.startsWith('/steady')))

    await store.stores.update(gateway.storeId, { payout: { base: otherWallet } }, 99)
    t.match(await accepts(), [{ amount: '100000', payTo: otherWallet }], 'a new wallet is offered at once')
    await store.links.update(steady.id, { price: '0.30' }, 100)
    t.match(await accepts(), [{ amount: '300000', payTo: otherWallet }], 'and a new price')
  },
)

const closed = () => ({ status: 403, headers: [], body: null })
const open = () => undefined
const isClosed = (slug: string) => slug.startsWith('closed')

class Gate {
  guard(): ReturnType<typeof closed> | undefined {
    return undefined
  }
}

/** Ways in which a plugin may have another guard for some links, and the same kind of object for all. */
const gates: Record<string, (slug: string) => RouteHooks> = {
  'an own property': (slug) => Object.assign(new Gate(), isClosed(slug) && { guard: closed }),
  'a getter': (slug) =>
    new (class Got {
      get guard() {
        return isClosed(slug) ? closed : open
      }
    })(),
  'a proxy': (slug) => new Proxy(new Gate(), { get: () => (isClosed(slug) ? closed : open) }),
  'a list of functions': (slug) => ({ guard: isClosed(slug) ? closed : open }),
}

t.test('hooks that are called are those of the object that a plugin answered for the link', async (t) => {
  for (const [what, gateOf] of Object.entries(gates)) {
    const given: Record<string, RouteHooks> = {}
    const route = ({ link: { slug } }: { link: { slug: string } }) => (given[slug] = gateOf(slug))
    const gate = { ...pluginOf('gate', {}), setup: () => ({ route }) }
    const responses = pluginOf('answers', { forward: () => ({ status: 200, headers: [], body: 'sold' }) })
    const entries = [gate, responses].map((plugin) => ({ plugin, options: {} }))
    // Without the guard of slots, that gives each hook a function of its own.
    const generation = await buildGeneration(entries, { log: silentLog } as GatewayPorts)
    const call = async (slug: string) => {
      const link = { ...prototypeLinks[0]!, slug }
      const transport = new MemoryTransport()
      runCall(callThrough(transport, link), generation.compile(link), generation, newCalls(silentLog))
      return (await transport.ended)!.status
    }
    t.equal(await call('open'), 200, what)
    t.equal(await call('closed'), 403, what)
    t.equal(await call('open-2'), 200, what)
    const link = { ...prototypeLinks[0]!, slug: 'later' }
    const program = generation.compile(link)
    if (what !== 'a proxy' && what !== 'a getter') {
      Object.assign(given['later']!, { guard: closed })
      const transport = new MemoryTransport()
      runCall(callThrough(transport, link), program, generation, newCalls(silentLog))
      t.equal((await transport.ended)!.status, 403, `${what} that is set later`)
    }
  }
})
