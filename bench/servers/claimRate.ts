// Claims distinct payments for some seconds, many at once, and prints how many a second every process can see: in SQLite, or in
// a schema of its own of a PostgreSQL server; or in a store that is there (`dbPath`, or a `schema`), from which they are taken out again.
import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { openPostgres } from '../../adapters/store/postgres/openPostgres.ts'
import { openSqlite } from '../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { asset, network, payTo } from './offer.ts'

const {
  seconds,
  maxRows = 32,
  folder = '',
  dbPath,
  postgresUrl,
  schema: given,
  atOnce = 64,
} = JSON.parse(process.argv[2]!) as {
  seconds: number
  maxRows?: number
  folder?: string
  dbPath?: string
  postgresUrl?: string
  schema?: string
  atOnce?: number
}
const common = { clock: systemClock, log: silentLog }
const schema = given ?? `tollgate_bench_${process.pid}`
const path = dbPath ?? join(folder, 'claims.db')
const store =
  postgresUrl === undefined
    ? await openSqlite({ ...common, path, groupCommit: { flushMs: 1, maxRows } })
    : await openPostgres({ ...common, url: postgresUrl, schema })
const held = (await store.leases.take('process:bench', 600_000))!
const lease = held.id
const storeId = randomUUID()
const linkId = randomUUID()
// As long as a payment of the reference client.
const payload = JSON.stringify({ x402Version: 2, payload: 'p'.repeat(900) })
let done = 0
let isOver = false

async function claimOn(): Promise<void> {
  while (!isOver) {
    const nonce = randomBytes(32).toString('hex')
    const result = await store.ledger.claim({
      key: nonce,
      scheme: 'exact',
      network,
      asset,
      payer: payTo,
      nonce: `0x${nonce}`,
      payTo,
      amountAtomic: 100_000n,
      validBeforeMs: Date.now() + 300_000,
      lease,
      linkId,
      sessionId: null,
      storeId,
      requestHash: nonce,
      purchaseId: randomUUID(),
      payload,
    })
    if (!result.won) throw new Error('Expected to win the claim of an unclaimed payment.')
    done++
  }
}

const claimers = Array.from({ length: atOnce }, claimOn)
await new Promise((resolve) => setTimeout(resolve, 300))
const doneBefore = done
const cpuBefore = process.cpuUsage()
const startedMs = performance.now()
await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
const claims = done - doneBefore
const { user, system } = process.cpuUsage(cpuBefore)
const perSecond = (claims / (performance.now() - startedMs)) * 1_000
isOver = true
await Promise.all(claimers)
await store.leases.release(held)
await store.close()
const takeOut = [
  `DELETE FROM payment_payloads WHERE payment_id IN (SELECT id FROM payments WHERE lease = ${lease})`,
  `DELETE FROM payments WHERE lease = ${lease}`,
]
if (dbPath !== undefined) {
  const database = new DatabaseSync(dbPath)
  for (const statement of takeOut) database.exec(statement)
  database.close()
}
if (postgresUrl !== undefined) {
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  if (given === undefined) await client.query(`DROP SCHEMA ${schema} CASCADE`)
  else {
    await client.query(`SET search_path = ${schema}`)
    for (const statement of takeOut) await client.query(statement)
    await client.query('VACUUM ANALYZE payments, payment_payloads')
  }
  await client.end()
}
console.log(JSON.stringify({ perSecond, cpuUs: (user + system) / claims }))
