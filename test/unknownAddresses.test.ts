import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { openSqlite } from '../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../core/ports/clock.ts'
import { silentLog } from '../core/ports/log.ts'
import { startGateway, type TestGatewayOptions } from './helpers/gateway.ts'
import { until } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

/** A gateway that counts how often its store is asked for an address, and receives changes like its neighbors. */
async function startCounted(t: Parameters<typeof startGateway>[0], options: TestGatewayOptions = {}) {
  const requests: string[] = []
  let nowMs = Date.now()
  const gateway = await startGateway(t, {
    ...options,
    adapt(ports) {
      const { served, redirectOf } = ports.links
      const links = {
        ...ports.links,
        served(username: string, slug: string) {
          requests.push(`served ${username}/${slug}`)
          return served(username, slug)
        },
        redirectOf(username: string, slug: string, atMs: number) {
          requests.push(`redirectOf ${username}/${slug}`)
          return redirectOf(username, slug, atMs)
        },
      }
      return { ...ports, links, clock: { ...ports.clock, now: () => nowMs } }
    },
  })
  const ask = async (address: string) => {
    const response = await fetch(`${gateway.url}/api/link/${address}`, { redirect: 'manual' })
    await response.arrayBuffer()
    return response
  }
  return { gateway, requests, ask, pass: (ms: number) => void (nowMs += ms) }
}

t.test('an address that a link had, or never had, is looked up once', async (t) => {
  const seller = await startSeller(t, 'echo')
  const { gateway, requests, ask } = await startCounted(t)
  const { id } = await gateway.addLink({ slug: 'old', url: seller.url })
  await gateway.store.links.update(id, { slug: 'new' }, Date.now())
  for (let i = 0; i < 100; i++) {
    t.equal((await ask('demo/old/x?q=1')).headers.get('location'), '/api/link/demo/new/x?q=1')
    t.equal((await ask('demo/never')).status, 404)
    t.equal((await ask('nobody/never')).status, 404)
  }
  t.strictSame(
    requests,
    ['demo/old', 'demo/never', 'nobody/never'].flatMap((a) => [`served ${a}`, `redirectOf ${a}`]),
  )
  await Promise.all(Array.from({ length: 100 }, () => ask('demo/at-once')))
  t.equal(requests.length, 8, 'who asks at the same moment joins')
})

t.test('what changes an address is heard of at once', async (t) => {
  const seller = await startSeller(t, 'echo')
  const { gateway, ask } = await startCounted(t)
  const { links } = gateway.ports
  t.equal((await ask('demo/late')).status, 404)
  const { id } = await gateway.addLink({ slug: 'late', url: seller.url })
  t.equal((await ask('demo/late')).status, 200)
  for (const to of ['b', 'c']) {
    await links.update(id, { slug: to }, Date.now())
    t.equal((await ask('demo/late')).headers.get('location'), `/api/link/demo/${to}`)
  }
  await links.deactivate(id, Date.now())
  t.equal((await ask('demo/late')).status, 404)
  t.equal((await ask('demo/c')).status, 404)
})

t.test('a change that another process wrote is heard of too', async (t) => {
  const seller = await startSeller(t, 'echo')
  const dbPath = join(t.testdir(), 'shared.db')
  const { gateway, ask } = await startCounted(t, { dbPath })
  const elsewhere = await openSqlite({ path: dbPath, clock: systemClock, log: silentLog })
  t.teardown(() => elsewhere.close())
  const { id } = await gateway.addLink({ slug: 'here', url: seller.url })
  t.equal((await ask('demo/there')).status, 404)
  await elsewhere.links.update(id, { slug: 'there' }, Date.now())
  await until(async () => (await ask('demo/there')).status === 200)
  t.equal((await ask('demo/here')).status, 308)
})

t.test(
  'guessing addresses reaches the store a bounded number of times, and nobody else is in its way',
  async (t) => {
    const seller = await startSeller(t, 'echo')
    const { gateway, requests, ask, pass } = await startCounted(t)
    await gateway.addLink({ slug: 'known', url: seller.url })
    await gateway.addLink({ slug: 'known-later', url: seller.url })
    t.equal((await ask('demo/known')).status, 200)
    requests.length = 0
    const guesses = Array.from({ length: 600 }, () => `demo/${randomUUID()}`)
    const statuses = new Map<number, number>()
    while (guesses.length > 0) {
      for (const { status } of await Promise.all(guesses.splice(0, 20).map(ask)))
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    t.strictSame(Object.fromEntries(statuses), { 404: 200, 429: 400 })
    t.equal(requests.length, 400, 'two questions for each that was let through')
    t.equal((await ask('demo/known')).status, 200, 'a link that is known answers the same client')
    const refused = await ask('demo/another')
    t.equal(refused.headers.get('retry-after'), '1')
    pass(1_000)
    t.equal((await ask('demo/known-later')).status, 200, 'and one that was not called yet soon does')
    t.equal((await ask('demo/another')).status, 404)
    t.equal(requests.length, 403)
  },
)

t.test('finding links costs nothing, however many', async (t) => {
  const seller = await startSeller(t, 'echo')
  const { gateway, ask } = await startCounted(t)
  const slugs = Array.from({ length: 250 }, (_, i) => `link-${i}`)
  for (const slug of slugs) await gateway.addLink({ slug, url: seller.url })
  const responses = []
  while (slugs.length > 0)
    responses.push(...(await Promise.all(slugs.splice(0, 25).map((slug) => ask(`demo/${slug}`)))))
  t.ok(responses.every(({ status }) => status === 200))
})

t.test('payments for addresses without a link are looked up a bounded number of times', async (t) => {
  const settler = createScriptedSettler()
  let polls = 0
  let nowMs = Date.now()
  const gateway = await startGateway(t, {
    settlers: [settler],
    adapt: (ports) => ({ ...ports, clock: { ...ports.clock, now: () => nowMs } }),
    adaptLedger: (ledger) => ({
      ...ledger,
      find(key) {
        polls++
        return ledger.find(key)
      },
    }),
  })
  const call = async (headers: Record<string, string>) => {
    const { status } = await fetch(`${gateway.url}/api/link/demo/never`, { headers })
    return status
  }
  const pay = (nonce: number) => call({ 'payment-signature': scriptedPayment(`n${nonce}`, '1') })
  const statuses = new Map<number, number>()
  for (let i = 0; i < 250; i++) {
    const status = await pay(i)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  // The first one took two: the address was asked for as well.
  t.strictSame(Object.fromEntries(statuses), { 404: 199, 429: 51 })
  t.equal(polls, 199)
  t.equal(settler.calls.check, 199)
  t.equal(await call({}), 404, 'who comes without a payment costs nothing')
  nowMs += 1_000
  t.equal(await pay(250), 404)
})
