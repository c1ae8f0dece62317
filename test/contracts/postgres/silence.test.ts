import net from 'node:net'
import t, { type Test } from 'tap'
import { runCall } from '../../../adapters/store/postgres/calls.ts'
import { connectPool } from '../../../adapters/store/postgres/connect.ts'
import type { Methods } from '../../../adapters/store/repositories/calls.ts'
import type { Steps, Tx } from '../../../adapters/store/repositories/transaction.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { keyOf, sampleClaim } from '../samples.ts'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

/** A way to the server on which nothing moves any more after `stop`, and no connection ends, until `goOn`. */
async function startProxy(t: Test) {
  const server = new URL(databaseUrl)
  const sockets = new Set<net.Socket>()
  let isStopped = false
  const way = net.createServer((near) => {
    const far = net.connect(Number(server.port || 5432), server.hostname)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy())
      if (isStopped) one.pause()
    }
  })
  await new Promise<void>((resolve) => way.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const one of sockets) one.destroy()
    way.close()
  })
  const url = new URL(databaseUrl)
  url.hostname = '127.0.0.1'
  url.port = String((way.address() as net.AddressInfo).port)
  return {
    url: url.href,
    stop() {
      isStopped = true
      for (const one of sockets) one.pause()
    },
    goOn() {
      isStopped = false
      for (const one of sockets) one.resume()
    },
  }
}

t.test(
  'a server that is silent: who is behind a claim without an answer is told before it, and so is who asks how it is',
  { skip },
  async (t) => {
    const way = await startProxy(t)
    const { schema } = await makePostgres(t)
    const store = await makePostgres(t, { schema, url: way.url })
    await store.ledger.claim(sampleClaim('before'))
    way.stop()
    let isSentOver = false
    const sent = store.ledger.claim(sampleClaim('sent')).finally(() => {
      isSentOver = true
    })
    sent.catch(() => undefined)
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    await t.rejects(store.ledger.claim(sampleClaim('behind')), { code: 'store_unavailable' })
    t.match(await store.health(), [/^PostgreSQL accepts no writes: no response in/])
    t.notOk(isSentOver, 'the one that was sent may still be answered')
    way.goOn()
    t.match(await sent, { won: true })
    t.equal(await store.ledger.find(keyOf('behind')), undefined, 'what was refused is not there later')
    t.strictSame(await store.health(), [])
  },
)

t.test(
  'a process that is frozen or cut off in the middle of a call does not keep its locks from the others',
  { skip },
  async (t) => {
    const way = await startProxy(t)
    const { schema, leases, database } = await makePostgres(t)
    const connection = {
      url: way.url,
      schema,
      maxConnections: 1,
      connectTimeoutMs: 1_000,
      queryTimeoutMs: 1_000,
    }
    const pool = connectPool({ ...connection, log: silentLog })
    t.teardown(() => pool.end())
    const methods = {
      leases: {
        *take(tx: Tx): Steps<void> {
          yield* tx.hold('leases')
          way.stop()
          yield* tx.storeNowMs()
        },
      },
    } satisfies Methods
    const frozen = { ...database, pool }
    const cutOff = runCall(frozen, { noun: 'leases', method: 'take', args: [] }, 'flushed', methods)
    await t.rejects(cutOff, { code: 'store_unavailable' })
    t.ok(await leases.take('settler', 15_000))
  },
)
