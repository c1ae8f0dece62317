import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { PaymentChange } from '../../../core/ports/store/ledger.ts'
import { change, keyOf, type Sale, sell } from '../samples.ts'

/** Of the log's file and of each page in it (sqlite.org/fileformat2.html, sections 4.1 and 4.2). */
const [fileHeadBytes, frameHeadBytes, pageBytes] = [32, 24, 4_096]

t.test('a sale that is handed over or owed back writes no page of what finds it', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  const looker = new DatabaseSync(path)
  t.teardown(async () => {
    looker.close()
    await store.close()
  })
  const sales = await Promise.all(
    Array.from({ length: 100 }, (_, i) => sell(store, `k${i}`, `0x${keyOf(`${i}`)}`, { event: '7' })),
  )

  /** The tables and indexes of which anything is written by these changes. */
  async function writtenBy(changeOf: (sale: Sale) => PaymentChange): Promise<Set<string>> {
    t.match(looker.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get(), { busy: 0 })
    t.strictSame(
      await store.ledger.applyAll(sales.map(changeOf)),
      sales.map(() => true),
    )
    const owners = new Map(
      looker
        .prepare('SELECT pageno, name FROM dbstat')
        .all()
        .map(({ pageno, name }) => [pageno, String(name)]),
    )
    const log = readFileSync(`${path}-wal`)
    const written = new Set<string>()
    for (let at = fileHeadBytes; at < log.length; at += frameHeadBytes + pageBytes)
      written.add(owners.get(log.readUInt32BE(at)) ?? 'free')
    return written
  }

  const finding = ['purchases_transfer', 'purchases_store', 'purchases_link', 'sqlite_autoindex_purchases_1']
  const delivered = await writtenBy(({ claim, row }) =>
    change(claim, row, 'settled', 'delivered', { purchaseStatus: 'delivered' }),
  )
  t.ok(delivered.has('purchases'))
  for (const index of finding) t.notOk(delivered.has(index), index)
  const owed = await writtenBy(({ claim, row }) =>
    change(claim, row, 'delivered', 'refund_due', { purchaseStatus: 'refund_due' }),
  )
  t.ok(owed.has('purchases'))
  for (const index of finding) t.notOk(owed.has(index), index)
  const gone = await writtenBy(({ claim, row }) =>
    change(claim, row, 'refund_due', 'reorged', { purchaseStatus: 'reorged' }),
  )
  t.ok(gone.has('purchases_transfer'), 'what has left the chain gives its event back')
})
