import assert from 'node:assert/strict'
import { notCollected, type PaymentRecord } from '../../core/domain/payment.ts'
import type { Asked, Signed } from './buyers.ts'
import { closedStates, type World } from './world.ts'

type Named = Pick<Signed, 'nonce'>

/** A process that died has no row any more: what it left is somebody's work that lives, or done. */
export async function judgeTakeover(world: World, payments: readonly Signed[]): Promise<void> {
  const living = world.processes.map(({ lease }) => lease?.current.id)
  for (const { key, nonce } of payments) {
    const record = await world.store.books.find(key)
    if (record === undefined || record.lease === null) continue
    assert.ok(
      living.includes(record.lease),
      `${nonce} is ${record.state} under the lease of a process that died 30 s ago`,
    )
  }
}

/** The promise about money: what is on chain is in the books, once, and who has an answer has paid for it. */
export async function judge(world: World, calls: readonly Signed[]): Promise<void> {
  assert.equal(world.misuse, undefined)
  const { store } = world
  const { landed, cancelled } = world.chain.view()
  const transfers = new Set<string>()
  let purchases = 0
  const exact = world.sent.filter(({ isExact }) => isExact)
  for (const payment of [...calls, ...world.signedForSessions, ...exact]) {
    const { key, nonce } = payment
    const record = await store.books.find(key)
    const purchase = record && (await store.purchases.find(record.purchaseId))
    const state = record?.state ?? 'absent'
    assert.ok(record === undefined || closedStates.includes(record.state), `${nonce} is left ${state}`)
    if (purchase !== undefined) purchases++
    const isCharged = purchase !== undefined && purchase.status !== 'reorged'
    const found = landed.get(key)
    if (found === undefined) {
      // Paid back, and then its own transfer left the chain: the seller's loss, and nobody looks any more.
      assert.ok(!isCharged || state === 'refunded', `${nonce} is ${state}, and is not on chain`)
      const isServed = world.asked.some(
        (asked) => asked.payment === payment && asked.door.got?.status === 200,
      )
      if (cancelled.has(key) && !world.hasReorganised)
        assert.ok(!isServed, `${nonce} was taken back by its payer, who has an answer`)
    } else {
      assert.ok(isCharged, `${nonce} is on chain, and is ${state}`)
      const { txHash } = purchase
      if (state !== 'refunded') assert.equal(txHash, found.hash, `${nonce}: its transaction`)
      // Paid back, and then a reorganisation has moved it: it holds no place.
      assert.ok(record!.event !== null || state === 'refunded', `${nonce} is ${state} by no event`)
      const transfer = `${txHash} ${record!.event ?? nonce}`
      assert.ok(!transfers.has(transfer), `${nonce}: its event is another payment's`)
      transfers.add(transfer)
    }
    if (isCharged) assert.equal(purchase.status, state, `${nonce}: the purchase is as the payment`)
    await judgeLedger(world, payment, record)
    judgeRefund(world, payment, record, await (record && store.books.refundOf(record.row)))
    // What pays a session buys no call; sessions are judged by themselves.
    if (record?.sessionId != null || !('header' in payment)) continue
    judgeRuns(world, payment, record)
    judgeAnswers(world, payment, record)
  }
  assert.equal(await store.countPurchases(), purchases, 'every purchase is of one of the payments')
  const parked = await store.books.parked(1, 10)
  assert.deepEqual(
    parked.rows.map(({ state, dueReason }) => `${state}: ${dueReason}`),
    [],
    'nothing is put off for good',
  )
  if (store.kind === 'memory') {
    const { broken, unbalanced } = await store.purchases.ledgerCheck()
    assert.deepEqual([...broken, ...unbalanced], [])
  }
}

async function judgeLedger({ store }: World, { nonce }: Named, record?: PaymentRecord): Promise<void> {
  if (record === undefined) return
  const lines = await store.purchases.ledger(record.purchaseId)
  const sum = lines.reduce((total, { amountAtomic }) => total + amountAtomic, 0n)
  assert.equal(sum, 0n, `${nonce}: its ledger adds up`)
  const seller = lines.filter(({ account }) => account.startsWith('seller:'))
  const stands = seller.reduce((total, { amountAtomic }) => total + amountAtomic, 0n)
  const isSold = ['delivered', 'refund_due'].includes(record.state)
  assert.equal(
    stands,
    isSold ? record.chargedAtomic : 0n,
    `${nonce}: what its seller has, being ${record.state}`,
  )
}

function judgeRefund(
  { paidBack }: World,
  { nonce }: Named,
  record: PaymentRecord | undefined,
  refund: { readonly transaction: string } | undefined,
): void {
  assert.equal(record?.state === 'refunded', refund !== undefined, `${nonce}: refunded with a transfer back`)
  if (refund !== undefined)
    assert.equal(paidBack.get(refund.transaction), nonce, `${nonce}: paid back by its own`)
}

/**
 * The seller works once for each claim at most, and for two claims of one payment at a time only where the first one's
 * process was taken for dead. A payment is claimed anew only when nothing was sent for the claim before: so from the moment
 * that it lands the seller works for nobody but the claim that is charged, where that is charged first; or for a process
 * that was taken for dead, and goes on before it has looked.
 */
function judgeRuns(world: World, { key, nonce }: Signed, record: PaymentRecord | undefined): void {
  const own = world.runs.filter((run) => run.key === key)
  const perClaim = new Set(own.map(({ purchaseId }) => purchaseId))
  assert.equal(perClaim.size, own.length, `${nonce}: the seller worked twice for one claim`)
  for (const [i, run] of own.entries()) {
    const next = own[i + 1]
    if (next === undefined || next.startedAtMs >= run.endedAtMs) continue
    assert.ok(
      world.wasTakenForDead(run.by) || world.wasTakenForDead(next.by),
      `${nonce}: the seller worked for two calls at a time`,
    )
  }
  for (const [i, { isGood, purchaseId, by }] of own.entries()) {
    if (!isGood || own[i + 1] === undefined || world.wasTakenForDead(by)) continue
    const call = world.asked.find(({ x }) => x.claim?.purchaseId === purchaseId)
    assert.ok(call?.x.errorCode, `${nonce}: the seller worked again for what it had answered well`)
  }
  const landedAtMs = world.chain.landedAtMs.get(key)
  if (landedAtMs === undefined) return
  const afterwards = own.filter(({ startedAtMs }) => startedAtMs > landedAtMs)
  const isFirst = record?.linkId === world.store.links[1]!.id
  assert.ok(
    afterwards.every(
      ({ purchaseId, by }) => (isFirst && purchaseId === record?.purchaseId) || world.wasTakenForDead(by),
    ),
    `${nonce}: the seller worked for nothing after the charge`,
  )
}

function judgeAnswers(world: World, payment: Signed, record: PaymentRecord | undefined): void {
  const { key, nonce } = payment
  const own = world.asked.filter((asked) => asked.payment === payment)
  const delivered = own.filter(({ door }) => door.got?.status === 200)
  const first = delivered[0]
  for (const { door, what, process, lease } of delivered) {
    const { headers, body } = door.got!
    assert.equal(
      headerOf(headers, 'X-Purchase-Id'),
      record?.purchaseId,
      `${nonce}: the purchase that was told`,
    )
    assert.equal(body, first!.door.got!.body, `${nonce}: every answer is the same`)
    assert.equal(what, first!.what, `${nonce}: one payment buys one call`)
    // A process that lived on has noted what it handed over.
    if (world.wasTakenForDead(process) || process.lease!.current.id !== lease) continue
    const state = record?.state ?? ''
    assert.ok(
      ['delivered', 'refunded', 'failed_final'].includes(state) || world.hasReorganised,
      `${nonce} was delivered by a process that lives, and is ${state}`,
    )
  }
  if (record?.errorReason === 'never_delivered' && !world.hasReorganised)
    assert.ok(
      !hasHungUp(world, own, record),
      `${nonce}: its buyer hung up on its answer, and is owed it back`,
    )
  if (record === undefined || record.state !== 'delivered') return
  if (record.errorReason === notCollected) {
    world.seen.add('an answer is never collected')
    assert.ok(
      delivered.length === 0 && own.some(({ door }) => door.hasLeft),
      `${nonce}: no buyer has hung up on it`,
    )
  } else assert.ok(delivered.length > 0 || wasLost(own), `${nonce} is delivered, and nobody got it`)
  const claim = world.ways.claims.find(({ purchaseId }) => purchaseId === record.purchaseId)
  assert.ok(claim, `${nonce}: somebody has claimed it`)
  for (const asked of own) {
    if (!heardNotCharged(asked)) continue
    // It was so when he heard it: a reorganisation has undone what he had done himself.
    if (world.hasReorganised && world.chain.takenBack.has(key)) continue
    const isOfIt: boolean = asked.x.claim?.purchaseId === record.purchaseId || asked.startedAtMs >= claim.atMs
    assert.ok(!isOfIt, `${nonce}: its buyer heard that it was not charged: ${asked.door.got!.body} ${key}`)
  }
}

/** The answer was ready, at a process that lived on, when the buyer had hung up. */
const hasHungUp = (world: World, own: readonly Asked[], { purchaseId }: PaymentRecord): boolean =>
  own.some(({ x, door, process, lease }) => {
    if (world.wasTakenForDead(process) || process.lease!.current.id !== lease) return false
    return (
      x.claim?.purchaseId === purchaseId &&
      door.hasLeft &&
      x.isUnsent &&
      x.purchase !== null &&
      x.status === 200
    )
  })

/** Handed to a connection that ended before its buyer had read it. */
const wasLost = (asked: readonly Asked[]): boolean => asked.some(({ door }) => door.hasBegun)

function heardNotCharged({ door: { got } }: Asked): boolean {
  if (got === undefined || got.status === 200) return false
  if (got.status === 402 || got.status === 404) return true
  return /not charged|nothing was charged/i.test(got.body)
}

const headerOf = (headers: readonly string[], name: string) => headers[headers.indexOf(name) + 1]
