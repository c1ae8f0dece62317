import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { checkLedger } from '../adapters/store/sqlite/payments/ledgerCheck.ts'
import { fillStore } from '../bench/scale/fillStore.ts'
import { startSeller } from './helpers/sellers.ts'

const bench = (file: string) => new URL(`../bench/servers/${file}`, import.meta.url).pathname

/** One of the bench's programs, until it has said its first line. */
async function run(t: Test, file: string, options: object): Promise<Record<string, unknown>> {
  const child = spawn(process.execPath, [bench(file), JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  return JSON.parse(line) as Record<string, unknown>
}

/** The rows of every table that a sale is in, of the latest call that was paid for and delivered. */
function saleIn(file: string): Record<string, unknown> {
  const database = new DatabaseSync(file, { readOnly: true })
  const { id, purchase_id: purchase } = database
    .prepare(
      `SELECT id, purchase_id FROM payments WHERE state = 'delivered' AND session_id IS NULL ORDER BY id DESC LIMIT 1`,
    )
    .get()!
  const one = (table: string, column: string, value: unknown) => {
    // Those two are the recovery's, which looks at a gateway's sale half a minute later.
    const { due_at_ms, due_reason, ...row } = database
      .prepare(`SELECT * FROM ${table} WHERE ${column} = ?`)
      .get(value as never) as Record<string, unknown>
    return row
  }
  const rows = {
    ...Object.fromEntries(
      ['payment_payloads', 'attempts', 'responses', 'purchases'].map((table) => [
        table,
        one(table, 'payment_id', id),
      ]),
    ),
    payments: one('payments', 'id', id),
    ledger: one('ledger', 'purchase_id', purchase),
  }
  database.close()
  return rows
}

/** What kind of value stands in each place, and how long it is where that is fixed. */
function shapeOf(value: unknown): unknown {
  if (value instanceof Uint8Array) return value.length === 32 ? '32 bytes' : 'bytes'
  // A seller sends as many headers as it likes.
  if (Array.isArray(value))
    return { listOf: [...new Set(value.map((one) => JSON.stringify(shapeOf(one))))].sort() }
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shapeOf(part)]))
  if (typeof value !== 'string') return value === null ? null : typeof value
  if (/^[[{]/.test(value)) return { json: shapeOf(JSON.parse(value)) }
  if (/^0x[0-9a-f]*$/i.test(value)) return value.length > 200 ? 'long hex' : `hex ${value.length}`
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)) return 'uuid'
  if (/^[0-9a-f]{64}$/.test(value)) return 'sha-256'
  return /^\d+$/.test(value) ? 'digits' : 'text'
}

t.test('a filled store is whole, and its sales are what a gateway writes', async (t) => {
  const [folder, sold] = [t.testdir({}), join(t.testdirName, 'sold')]
  const nowMs = Date.now()
  const filled = await fillStore({
    folder: join(folder, 'filled'),
    links: 400,
    sales: 900,
    upstreamPort: 1,
    nowMs,
  })
  const file = join(folder, 'filled', 'tollgate.db')
  const found = await checkLedger(file, nowMs)
  t.match(found, {
    purchases: 900,
    chargedPayments: 900,
    unresolvedPayments: 0,
    refundDue: 1,
    broken: [],
    unbalanced: [],
  })
  t.equal(new Set([...filled.free, ...filled.paid]).size, filled.free.length + filled.paid.length)
  const database = new DatabaseSync(file, { readOnly: true })
  const [whole] = database.prepare('PRAGMA integrity_check').all()
  t.same({ ...whole }, { integrity_check: 'ok' })
  t.same(database.prepare('PRAGMA foreign_key_check').all(), [])
  for (const table of [
    'reviews',
    'review_counts',
    'webhook_deliveries',
    'webhook_tries',
    'payment_sessions',
    'refunds',
    'link_hours',
    'health_events',
    'link_suspensions',
  ])
    t.ok(database.prepare(`SELECT 1 FROM ${table} LIMIT 1`).get(), table)
  database.close()

  const seller = await startSeller(t, 'hello')
  const links = [{ slug: 'paid', path: '/', price: '0.10' }]
  const { port } = await run(t, 'gateway.ts', {
    upstreamPort: Number(new URL(seller.url).port),
    folder: sold,
    links,
  })
  const payments = join(folder, 'payments')
  await run(t, 'signPayments.ts', { files: [{ file: payments, count: 1 }] })
  const headers = { 'payment-signature': readFileSync(payments, 'utf8').trim() }
  const response = await fetch(`http://127.0.0.1:${port}/api/link/demo/paid`, { headers })
  t.equal(response.status, 200)
  await response.text()
  const delivered = () => {
    try {
      return saleIn(join(sold, 'tollgate.db'))
    } catch {
      return undefined
    }
  }
  while (delivered() === undefined) await new Promise((resolve) => setTimeout(resolve, 20))
  t.same(shapeOf(saleIn(file)), shapeOf(delivered()))
})

t.test('the same seed fills the same store', async (t) => {
  const folder = t.testdir({})
  const rows = async (name: string) => {
    await fillStore({
      folder: join(folder, name),
      links: 150,
      sales: 60,
      upstreamPort: 1,
      nowMs: 1_764_000_000_000,
    })
    const database = new DatabaseSync(join(folder, name, 'tollgate.db'), { readOnly: true })
    const all = [
      'stores',
      'links',
      'payments',
      'payment_payloads',
      'purchases',
      'ledger',
      'api_keys',
      'reviews',
    ].map((table) => database.prepare(`SELECT * FROM ${table}`).all())
    database.close()
    return all
  }
  t.same(await rows('one'), await rows('other'))
})
