// What the durable steps of a paid call cost, CPU of all threads and time by the wall: `node bench/durableSteps.ts`.
// With `--sold 1000000` the store has sold so much before; with `--filled FILE` an empty one and that one, which is written to,
// are measured; with the folder of another checkout that has the same ports,
// both are measured in turns, so that whatever else the machine does meets both.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { openSqlite } from '../adapters/sqlite/openSqlite.ts'
import { builtInAssets } from '../core/domain/asset.ts'
import { newPurchaseId } from '../core/payments/purchase.ts'
import { begin, deliver, sell } from '../core/payments/rules.ts'
import type { ClaimRequest, PaymentChange } from '../core/ports/books.ts'
import { systemClock } from '../core/ports/clock.ts'
import { silentLog } from '../core/ports/log.ts'
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
  },
})
const rounds = Number(values.rounds)
const usdc = builtInAssets.find((one) => one.network === network && one.address === asset)!
const links = Array.from({ length: 20 }, (_, i) => ({ linkId: `link-${i}`, storeId: `store-${i}` }))
// As long as what the reference client sends, a stored 1 KB answer and an EIP-1559 transaction.
const payload = JSON.stringify({ x402Version: 2, payload: 'p'.repeat(900) })
const answer = {
  status: 200,
  headers: ['Content-Type', 'application/json', 'Date', new Date().toUTCString()],
  body: Buffer.alloc(1_024, 'a'),
}
const signedTransaction = `0x${'ab'.repeat(280)}`

interface Candidate {
  readonly name: string
  readonly store: Awaited<ReturnType<typeof openSqlite>>
  readonly lease: number
  /** µs a payment, one sample a round, by step. */
  readonly samples: Map<string, number[]>
  close(): Promise<void>
}

/** @param filled the file of a store that is there already */
async function open(root: string, name: string, filled?: string): Promise<Candidate> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-steps-'))
  const module = (await import(pathToFileURL(join(root, 'adapters/sqlite/openSqlite.ts')).href)) as {
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
  return { name, store, lease, samples: new Map(), close }
}

/** Sales that are over, as they lie in the tables after their answers were forgotten. */
function sellBefore(path: string, count: number): void {
  const database = new DatabaseSync(path)
  database.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; BEGIN')
  const id = `printf('%08x-0000-7000-8000-000000000000', n)`
  const numbers = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})`
  const hex = (bytes: number) => `'0x' || lower(hex(randomblob(${bytes})))`
  database.exec(`${numbers} INSERT INTO payments (id, key, network, asset, payer, nonce, pay_to, amount_atomic,
      valid_before_ms, scheme, link_id, store_id, request_hash, purchase_id, claimed_at_ms, state, tx_hash, event, block,
      charged_atomic, updated_at_ms)
    SELECT n, randomblob(32), '${network}', '${asset}', ${hex(20)}, ${hex(32)}, '${payTo}', '100000', 1, 'exact',
      'link-' || n % 20, 'store-' || n % 20, ${hex(32)}, ${id}, n, 'delivered', ${hex(32)}, '1', n, '100000', n
    FROM numbers`)
  database.exec(`INSERT INTO purchases SELECT id, purchase_id, link_id, store_id, payer, network, asset, 'USDC', 6,
    amount_atomic, '5000', '0.1', tx_hash, event, 'delivered', request_hash, claimed_at_ms FROM payments`)
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

const attemptOf = ({ key }: ClaimRequest) => ({
  settler: `evm:${network}:${payTo}`,
  bytes: signedTransaction,
  transaction: `0x${key}`,
  sequence: '1',
})

function saleOf(claim: ClaimRequest) {
  const landed = { transaction: `0x${claim.key}`, event: '7', block: 12, chargedAtomic: claim.amountAtomic }
  return { payment: claim, landed, asset: usdc, reviewTokenHash: claim.requestHash, atMs: Date.now() }
}

async function round({ store: { books }, lease, samples }: Candidate): Promise<void> {
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
      books.apply(rule({ row: one.row, purchaseId: one.claim.purchaseId, lease }, one))
  for (const group of claims) {
    await step('claim', group, async (one) => {
      const result = await books.claim(one.claim)
      if (result.won) one.row = result.row
      return result.won
    })
    await step(
      'settling',
      group,
      apply((held, { claim }) => begin(held, attemptOf(claim), answer)),
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
    const figures = [...samples].map(([step, list]) => `${step} ${median(list).toFixed(1)}`)
    console.log(`${name}: ${figures.join(', ')} µs a payment`)
  }
await Promise.all(candidates.map(({ close }) => close()))
