// Claims distinct payments for some seconds, 64 at once, and prints how many a second every process can see.
import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { openSqlite } from '../../adapters/sqlite/openSqlite.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { asset, network, payTo } from './offer.ts'

const { seconds, maxRows, folder } = JSON.parse(process.argv[2]!) as {
  seconds: number
  maxRows: number
  folder: string
}
const store = await openSqlite({
  path: join(folder, 'claims.db'),
  clock: systemClock,
  log: silentLog,
  groupCommit: { flushMs: 1, maxRows },
})
const lease = (await store.leases.take('process:bench', 600_000))!.id
const storeId = randomUUID()
const linkId = randomUUID()
// As long as a payment of the reference client.
const payload = JSON.stringify({ x402Version: 2, payload: 'p'.repeat(900) })
let done = 0
let isOver = false

async function claimOn(): Promise<void> {
  while (!isOver) {
    const nonce = randomBytes(32).toString('hex')
    const result = await store.books.claim({
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
    if (!result.won) throw new Error('Expected to win the claim of a payment that nobody has.')
    done++
  }
}

const claimers = Array.from({ length: 64 }, claimOn)
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
await store.close()
console.log(JSON.stringify({ perSecond, cpuUs: (user + system) / claims }))
