// CPU of the durable steps of a paid call, all threads, user and system: `node bench/durableSteps.ts [other checkout]`.
// With a second checkout of the project both are measured in turns, so that whatever else the machine does meets both.
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { openSqlite } from '../adapters/sqlite/openSqlite.ts'
import { builtInAssets } from '../core/domain/asset.ts'
import { newPurchaseId } from '../core/payments/newPurchaseId.ts'
import { purchaseOf } from '../core/payments/purchaseOf.ts'
import { systemClock } from '../core/ports/clock.ts'
import { silentLog } from '../core/ports/log.ts'
import type { ClaimRequest, Payments } from '../core/ports/payments.ts'
import { median } from './harness/median.ts'
import { asset, network, payTo } from './servers/offer.ts'

/** Payments that take each step together, as under load. */
const groupSize = 32
const groupsPerRound = 40
const rounds = 16

const usdc = builtInAssets.find((one) => one.network === network && one.address === asset)!
const owner = randomUUID()
const links = Array.from({ length: 20 }, () => ({ linkId: randomUUID(), storeId: randomUUID() }))
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
  readonly payments: Payments
  readonly notesVerified: boolean
  /** µs of CPU a payment, one sample a round, by step. */
  readonly samples: Map<string, number[]>
  close(): Promise<void>
}

async function open(root: string): Promise<Candidate> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-steps-'))
  const module = (await import(pathToFileURL(join(root, 'adapters/sqlite/openSqlite.ts')).href)) as {
    openSqlite: typeof openSqlite
  }
  const store = await module.openSqlite({
    path: join(folder, 'steps.db'),
    clock: systemClock,
    log: silentLog,
  })
  const { payments } = store
  const trial = newClaim()
  await payments.claim(trial)
  const notesVerified = !(await payments.beginSettlement(trial.key, owner, attemptOf(trial, 0), answer))
  const close = async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  }
  return { name: root, payments, notesVerified, samples: new Map(), close }
}

function newClaim(notesVerified = true): ClaimRequest {
  const nonce = randomBytes(32).toString('hex')
  return {
    ...links[nonce.charCodeAt(0) % links.length]!,
    key: randomBytes(32).toString('hex'),
    network,
    asset,
    payer: payTo,
    nonce: `0x${nonce}`,
    payTo,
    amountAtomic: 100_000n,
    validBeforeMs: Date.now() + 300_000,
    owner,
    requestHash: randomBytes(32).toString('hex'),
    purchaseId: notesVerified ? randomUUID() : newPurchaseId(Date.now()),
    payload,
  }
}

const attemptOf = ({ key }: ClaimRequest, sequence: number) => ({
  settler: `evm:${network}:${payTo}`,
  bytes: signedTransaction,
  transaction: `0x${key}`,
  sequence: String(sequence),
})

async function round({ payments, notesVerified, samples }: Candidate): Promise<void> {
  const spent = new Map<string, number>()
  const claims = Array.from({ length: groupsPerRound }, () =>
    Array.from({ length: groupSize }, () => newClaim(notesVerified)),
  )
  const step = async (
    name: string,
    group: readonly ClaimRequest[],
    run: (c: ClaimRequest) => Promise<boolean>,
  ) => {
    const before = process.cpuUsage()
    const done = await Promise.all(group.map(run))
    const { user, system } = process.cpuUsage(before)
    spent.set(name, (spent.get(name) ?? 0) + user + system)
    spent.set('system', (spent.get('system') ?? 0) + system)
    spent.set('all', (spent.get('all') ?? 0) + user + system)
    if (!done.every(Boolean)) throw new Error(`Expected every ${name} to go through.`)
  }
  for (const group of claims) {
    await step('claim', group, async (claim) => (await payments.claim(claim)).won)
    if (notesVerified) {
      await step('verified', group, ({ key }) => payments.advance(key, owner, 'claimed', 'verified'))
    }
    await step('settling', group, (claim) =>
      payments.beginSettlement(claim.key, owner, attemptOf(claim, 1), answer),
    )
    await step('settled', group, (claim) => {
      const transaction = `0x${claim.key}`
      const facts = { ...claim, transaction, reviewTokenHash: claim.requestHash, atMs: Date.now() }
      const { purchase, entries } = purchaseOf(facts, usdc)
      return payments.settle(claim.key, owner, transaction, purchase, entries)
    })
    await step('delivered', group, ({ key }) => payments.moveCharged(key, 'settled', 'delivered', []))
  }
  for (const [name, us] of spent) {
    const list = samples.get(name) ?? []
    list.push(us / (groupSize * groupsPerRound))
    samples.set(name, list)
  }
}

const roots = [resolve(import.meta.dirname, '..'), ...process.argv.slice(2).map((path) => resolve(path))]
const candidates = await Promise.all(roots.map(open))
for (let i = 0; i <= rounds; i++) {
  for (const candidate of i % 2 === 0 ? candidates : candidates.toReversed()) {
    await round(candidate)
    if (i === 0) candidate.samples.clear() // warm-up
  }
}
for (const { name, samples } of candidates) {
  const figures = [...samples].map(([step, list]) => `${step} ${median(list).toFixed(1)}`)
  console.log(`${name}: ${figures.join(', ')} µs of CPU a payment`)
}
await Promise.all(candidates.map(({ close }) => close()))
