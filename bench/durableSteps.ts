// Cost of the durable steps of a paid call, as CPU of all threads and wall-clock time: `node
// bench/durableSteps.ts`. With `--sold 1000000` the database starts with that many sales. With `--filled
// FILE` an empty database and this one, which is written to, are both measured. With the folder of another
// checkout that has the same ports, both are measured in turns, so that other load on the machine affects
// both. `--pages` counts what one more round writes to the log, by table and index, which does not depend on
// other load.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { openSqlite } from '../adapters/store/sqlite/openSqlite.ts'
import { builtInAssets } from '../core/domain/asset.ts'
import { newPurchaseId } from '../core/payments/purchase.ts'
import { begin, deliver, sell } from '../core/payments/rules.ts'
import { systemClock } from '../core/ports/clock.ts'
import { silentLog } from '../core/ports/log.ts'
import type { ClaimRequest, PaymentChange } from '../core/ports/store/ledger.ts'
import { median } from './harness/median.ts'
import { asset, network, payTo } from './servers/offer.ts'

/** Payments that take each step together, as under load. */
const groupSize = 32
const groupsPerRound = 40
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sold: { type: 'string', default: '0' },
    filled: { type: 'string' },
    rounds: { type: 'string', default: '16' },
    json: { type: 'boolean', default: false },
    pages: { type: 'boolean', default: false },
  },
})
const rounds = Number(values.rounds)
const usdc = builtInAssets.find((one) => one.network === network && one.address === asset)!
const links = Array.from({ length: 20 }, (_, i) => ({ linkId: `link-${i}`, storeId: `store-${i}` }))
// As long as what the reference client sends, a stored 1 KB answer and an EIP-1559 transaction.
const payload = JSON.stringify({ x402Version: 2, payload: 'p'.repeat(900) })
const response = {
  status: 200,
  headers: ['Content-Type', 'application/json', 'Date', new Date().toUTCString()],
  body: Buffer.alloc(1_024, 'a'),
}
const signedTransaction = `0x${'ab'.repeat(280)}`

interface Candidate {
  readonly name: string
  readonly path: string
  readonly store: Awaited<ReturnType<typeof openSqlite>>
  readonly lease: number
  /** µs a payment, one sample a round, by step. */
  readonly samples: Map<string, number[]>
  close(): Promise<void>
}

/** @param filled the file of a store that is there already */
async function open(root: string, name: string, filled?: string): Promise<Candidate> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-steps-'))
  const module = (await import(pathToFileURL(join(root, 'adapters/store/sqlite/openSqlite.ts')).href)) as {
    openSqlite: typeof openSqlite
  }
  const options = { path: filled ?? join(folder, 'steps.db'), clock: systemClock, log: silentLog }
  if (Number(values.sold) > 0 && filled === undefined) {
    await (await module.openSqlite(options)).close()
    sellBefore(options.path, Number(values.sold))
  }
  const store = await module.openSqlite(options)
  const lease = (await store.leases.take('process:bench', 600_000))!.id
  const close = async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  }
  return { name, path: options.path, store, lease, samples: new Map(), close }
}

/** Sales that are over, as they lie in the tables after their answers were forgotten. */
function sellBefore(path: string, count: number): void {
  const database = new DatabaseSync(path)
  database.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; BEGIN')
  const id = `printf('%08x-0000-7000-8000-000000000000', n)`
  const numbers = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})`
  const hex = (bytes: number) => `'0x' || lower(hex(randomblob(${bytes})))`
  // As the adapter keeps hashes (adapters/store/sql/sales/paymentRows.ts), where its columns take them.
  const payments = database.prepare(`SELECT sql FROM sqlite_master WHERE name = 'payments'`).get()!['sql']
  const isPacked = String(payments).includes('tx_hash ANY')
  const [hash, wallet] = [32, 20].map((bytes) => (isPacked ? `randomblob(${bytes})` : hex(bytes)))
  database.exec(`${numbers} INSERT INTO payments (id, key, network, asset, payer, nonce, pay_to, amount_atomic,
      valid_before_ms, scheme, link_id, store_id, request_hash, purchase_id, claimed_at_ms, state, tx_hash, event, block,
      charged_atomic, updated_at_ms)
    SELECT n, randomblob(32), '${network}', '${asset}', ${wallet}, ${hash}, ${isPacked ? `unhex('${payTo.slice(2)}')` : `'${payTo}'`}, '100000', 1, 'exact',
      'link-' || n % 20, 'store-' || n % 20, ${hash}, ${id}, n, 'delivered', ${hash}, '1', n, '100000', n
    FROM numbers`)
  database.exec(`INSERT INTO purchases SELECT id, purchase_id, link_id, store_id, iif(typeof(payer) = 'blob', '0x' || lower(hex(payer)), payer),
    network, asset, 'USDC', 6,
    amount_atomic, '5000', '0.1', tx_hash, event, 'delivered', request_hash, claimed_at_ms, NULL FROM payments`)
  const line = `json_array('seller:' || store_id, network, asset, '100000', 'sale')`
  database.exec(`INSERT INTO ledger SELECT id, 0, json_array(${Array(4).fill(line).join()})
    FROM purchases ORDER BY payment_id`)
  database.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
}

function newClaim(lease: number): ClaimRequest {
  const nonce = randomBytes(32).toString('hex')
  return {
    ...links[nonce.charCodeAt(0) % links.length]!,
    sessionId: null,
    key: randomBytes(32).toString('hex'),
    scheme: 'exact',
    network,
    asset,
    payer: payTo,
    nonce: `0x${nonce}`,
    payTo,
    amountAtomic: 100_000n,
    validBeforeMs: Date.now() + 300_000,
    lease,
    requestHash: randomBytes(32).toString('hex'),
    purchaseId: newPurchaseId(Date.now()),
    payload,
  }
}

let nextSequence = Date.now() * 1_000

const attemptOf = ({ key }: ClaimRequest) => ({
  settler: `evm:${network}:${payTo}`,
  bytes: signedTransaction,
  transaction: `0x${key}`,
  // No two open attempts of a key have one.
  sequence: String(nextSequence++),
})

function saleOf(claim: ClaimRequest) {
  const landed = { transaction: `0x${claim.key}`, event: '7', block: 12, chargedAtomic: claim.amountAtomic }
  return { payment: claim, landed, asset: usdc, reviewTokenHash: claim.requestHash, atMs: Date.now() }
}

async function round({ store: { ledger }, lease, samples }: Candidate): Promise<void> {
  const spent = new Map<string, number>()
  const add = (name: string, us: number) => spent.set(name, (spent.get(name) ?? 0) + us)
  const step = async <T>(name: string, group: readonly T[], run: (one: T) => Promise<boolean>) => {
    const [before, startedMs] = [process.cpuUsage(), performance.now()]
    const done = await Promise.all(group.map(run))
    const { user, system } = process.cpuUsage(before)
    add(name, user + system)
    add('system', system)
    add('all', user + system)
    add('wall', (performance.now() - startedMs) * 1_000)
    if (!done.every(Boolean)) throw new Error(`Expected every ${name} to go through.`)
  }
  const claims = Array.from({ length: groupsPerRound }, () =>
    Array.from({ length: groupSize }, () => ({ claim: newClaim(lease), row: 0 })),
  )
  type Claimed = (typeof claims)[number][number]
  const apply =
    (rule: (held: Parameters<typeof deliver>[0], one: Claimed) => PaymentChange) => (one: Claimed) =>
      ledger.apply(rule({ row: one.row, purchaseId: one.claim.purchaseId, lease }, one))
  for (const group of claims) {
    await step('claim', group, async (one) => {
      const result = await ledger.claim(one.claim)
      if (result.won) one.row = result.row
      return result.won
    })
    await step(
      'settling',
      group,
      apply((held, { claim }) => begin(held, attemptOf(claim), response)),
    )
    await step(
      'settled',
      group,
      apply((held, { claim }) => sell(held, saleOf(claim), attemptOf(claim), false)),
    )
    await step('delivered', group, apply(deliver))
  }
  for (const [name, us] of spent) {
    const list = samples.get(name) ?? []
    list.push(us / (groupSize * groupsPerRound))
    samples.set(name, list)
  }
}

/** Of the log's file and of each page in it (sqlite.org/fileformat2.html, sections 4.1 and 4.2). */
const [fileHeadBytes, frameHeadBytes, pageBytes] = [32, 24, 4_096]

/** Pages that a round writes for each payment, and how many different ones, which are copied back: by what they are of. */
async function pagesOf(candidate: Candidate): Promise<string[]> {
  const looker = new DatabaseSync(candidate.path)
  looker.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  // While a reader holds an old snapshot, nothing is copied back, and the log contains the whole round.
  looker.exec('BEGIN; SELECT 1 FROM sqlite_schema')
  await round(candidate)
  const log = readFileSync(`${candidate.path}-wal`)
  looker.exec('COMMIT')
  const owners = new Map(
    looker
      .prepare('SELECT pageno, name FROM dbstat')
      .all()
      .map(({ pageno, name }) => [pageno, String(name)]),
  )
  looker.close()
  const written = new Map<string, number[]>()
  for (let at = fileHeadBytes; at < log.length; at += frameHeadBytes + pageBytes) {
    const page = log.readUInt32BE(at)
    for (const name of ['all', owners.get(page) ?? 'free']) {
      const pages = written.get(name) ?? []
      written.set(name, pages)
      pages.push(page)
    }
  }
  const each = (count: number) => (count / (groupSize * groupsPerRound)).toFixed(2)
  return [...written]
    .sort(([, a], [, b]) => b.length - a.length)
    .map(([name, pages]) => `${name} ${each(pages.length)} (${each(new Set(pages).size)})`)
}

const own = resolve(import.meta.dirname, '..')
const candidates = await Promise.all([
  open(own, values.filled === undefined ? own : 'empty'),
  ...(values.filled === undefined ? [] : [open(own, values.filled, values.filled)]),
  ...positionals.map((path) => open(resolve(path), path)),
])
for (let i = 0; i <= rounds; i++) {
  for (const candidate of i % 2 === 0 ? candidates : candidates.toReversed()) {
    await round(candidate)
    if (i === 0) candidate.samples.clear() // warm-up
  }
}
if (values.json) {
  const all = candidates.map(({ name, samples }) => [name, median(samples.get('all')!)])
  console.log(JSON.stringify(Object.fromEntries(all)))
} else
  for (const { name, samples } of candidates) {
    const stats = [...samples].map(([step, list]) => `${step} ${median(list).toFixed(1)}`)
    console.log(`${name}: ${stats.join(', ')} µs a payment`)
  }
if (values.pages)
  for (const one of candidates)
    console.log(`${one.name}, pages a payment: ${(await pagesOf(one)).join(', ')}`)
await Promise.all(candidates.map(({ close }) => close()))
