import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import t, { type Test } from 'tap'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { openSqlite } from '../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { DELIVERY_LEASE_MS } from '../../core/ports/store/webhooks.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { newSalt, secretOf } from './signWebhook.ts'

const sender = join(import.meta.dirname, '../../test/helpers/admin-api/sender.ts')
const SALES = 5

/** Two endpoints of a store with sales, and a receiver that reports what it received. */
async function shop(t: Test) {
  const path = join(t.testdir({}), 'tollgate.db')
  const secret = randomBytes(32)
  const sealer = createSealer(secret)
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  const received: { readonly to: string; readonly id: string; readonly purchaseId: string }[] = []
  const control = { isSilent: false, onRequest: () => {} }
  const salts = new Map(['a', 'b'].map((id) => [id, newSalt()]))
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const to = request.url!.slice(1)
      const verifier = new Webhook(secretOf(sealer, to, salts.get(to)!))
      const { purchaseId } = verifier.verify(body, request.headers as Record<string, string>) as never
      received.push({ to, id: String(request.headers['webhook-id']), purchaseId })
      if (!control.isSilent) response.end()
      control.onRequest()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  for (const [id, salt] of salts) {
    const more = { description: '', kinds: ['purchase.confirmed' as const], salt, createdAtMs: 0 }
    await store.webhooks.create({ id, storeId: 's', url: `${origin}/${id}`, ...more }, 9)
  }
  const sold: string[] = []
  for (let i = 0; i < SALES; i++)
    sold.push(await sell(store, { storeId: 's', linkId: 'l', amount: '1', atMs: Date.now() }))

  let run = 0
  /** Each start is later, by the store's clock, than the leases of the previous one. */
  function start(step: string): ChildProcess {
    const args = [sender, path, secret.toString('hex'), step, String(run++ * 2 * DELIVERY_LEASE_MS)]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    t.teardown(() => void child.kill('SIGKILL'))
    return child
  }
  return { store, received, sold, start, control }
}

/** Runs a sender until its work is done, and checks the results. */
async function finish(t: Test, s: Awaited<ReturnType<typeof shop>>): Promise<void> {
  const child = s.start('')
  for (;;) {
    const logs = await Promise.all(['a', 'b'].map((id) => s.store.webhooks.deliveries(id, { limit: 100 })))
    const all = logs.flatMap(({ deliveries }) => deliveries)
    if (all.length >= 2 * SALES && all.every(({ state }) => state === 'delivered')) {
      t.equal(all.length, 2 * SALES, 'one delivery of each event to each endpoint')
      break
    }
    if (child.exitCode !== null) throw new Error('The sender ended.')
    await new Promise((resolve) => setImmediate(resolve))
  }
  child.kill('SIGKILL')
  for (const to of ['a', 'b']) {
    const got = s.received.filter((one) => one.to === to)
    t.same(new Set(got.map(({ purchaseId }) => purchaseId)), new Set(s.sold), `no event is lost for ${to}`)
  }
  const ids = new Map(s.received.map(({ id, purchaseId }) => [`${purchaseId} ${id}`, id]))
  t.equal(ids.size, SALES, 'none was sent under two ids')
  t.equal(new Set(ids.values()).size, SALES, 'nor two under one')
  t.same((await s.store.purchases.ledgerCheck()).broken, [])
}

for (const step of ['composed', 'spread', 'taken', 'answered', 'noted']) {
  t.test(`killed when a delivery is ${step}: no event is lost, and none is sent under two ids`, async (t) => {
    const s = await shop(t)
    const [, signal] = await once(s.start(step), 'exit')
    t.equal(signal, 'SIGKILL')
    await finish(t, s)
  })
}

t.test('killed while the receiver has the request in its hands: the same', async (t) => {
  const s = await shop(t)
  s.control.isSilent = true
  const child = s.start('')
  await new Promise<void>((resolve) => {
    s.control.onRequest = resolve
  })
  child.kill('SIGKILL')
  await once(child, 'exit')
  s.control.isSilent = false
  await finish(t, s)
})
