import assert from 'node:assert/strict'
import {
  notCollected,
  type PaymentRecord,
  refundedTwice,
  refundLeftChain,
} from '../../core/domain/payment.ts'
import type { Asked, Signed } from './buyers.ts'
import { isStreamedLink } from './use/metering.ts'
import { closedStates, type World } from './world.ts'

type Named = Pick<Signed, 'nonce'>

/** A process that died has no row any more: its work is done, or belongs to a process that lives. */
export async function judgeTakeover(world: World, payments: readonly Signed[]): Promise<void> {
  const living = world.processes.map(({ lease }) => lease?.current.id)
  for (const { key, nonce } of payments) {
    const record = await world.store.ledger.find(key)
    if (record === undefined || record.lease === null) continue
    assert.ok(
      living.includes(record.lease),
      `${nonce} is ${record.state} under the lease of a process that died 30 s ago`,
    )
  }
}

/** The promise about money: every transfer on chain is in the ledger once, and every buyer with a response has paid for it. */
export async function judge(world: World, calls: readonly Signed[]): Promise<void> {
  assert.equal(world.misuse, undefined)
  const { store } = world
  const { landed, cancelled } = world.chain.view()
  const transfers = new Set<string>()
  let purchases = 0
  const exact = world.sent.filter(({ isExact }) => isExact)
  for (const payment of [...calls, ...world.signedForSessions, ...exact]) {
    const { key, nonce } = payment
    const record = await store.ledger.find(key)
    const purchase = record && (await store.purchases.find(record.purchaseId))
    const state = record?.state ?? 'absent'
    assert.ok(record === undefined || closedStates.includes(record.state), `${nonce} is left ${state}`)
    if (purchase !== undefined) purchases++
    const isCharged = purchase !== undefined && purchase.status !== 'reorged'
    const found = landed.get(key)
    if (found === undefined) {
      // Paid back, and then its own transfer left the chain: the seller's loss, and no process checks it any more.
      const isForNothing = purchase?.amountAtomic === 0n
      assert.ok(
        !isCharged || state === 'refunded' || isForNothing,
        `${nonce} is ${state}, and is not on chain`,
      )
      // The buyer of a stream has it before the charge.
      const isServed = world.requests.some(
        (request) =>
          request.payment === payment && request.transport.got?.status === 200 && !isStreamedLink(request),
      )
      if (!isForNothing && cancelled.has(key) && !world.hasReorganised)
        assert.ok(!isServed, `${nonce} was taken back by its payer, who has an answer`)
    } else {
      assert.ok(isCharged, `${nonce} is on chain, and is ${state}`)
      const { txHash } = purchase
      if (state !== 'refunded') assert.equal(txHash, found.hash, `${nonce}: its transaction`)
      // Paid back, and then a reorganization has moved it, so it holds no place. It gets none when its refund leaves the chain.
      const isReleased = state === 'refunded' || record!.errorReason === refundLeftChain
      assert.ok(record!.event !== null || isReleased, `${nonce} is ${state} by no event`)
      const transfer = `${txHash} ${record!.event ?? nonce}`
      assert.ok(!transfers.has(transfer), `${nonce}: its event is another payment's`)
      transfers.add(transfer)
    }
    if (isCharged) assert.equal(purchase.status, state, `${nonce}: the purchase is as the payment`)
    await judgeLedger(world, payment, record)
    await judgeRefund(world, payment, record, found !== undefined)
    // What pays a session buys no call; sessions are judged by themselves.
    if (record?.sessionId != null || !('header' in payment)) continue
    judgeRuns(world, payment, record)
    judgeAnswers(world, payment, record)
  }
  assert.equal(await store.countPurchases(), purchases, 'every purchase is of one of the payments')
  const parked = await store.ledger.parked(1, 10)
  assert.deepEqual(
    parked.rows.map(({ state, dueReason }) => `${state}: ${dueReason}`),
    [],
    'nothing is put off for good',
  )
  const { broken, unbalanced } = await store.purchases.ledgerCheck()
  assert.deepEqual([...broken, ...unbalanced], [])
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

async function judgeRefund(
  world: World,
  { nonce }: Named,
  record: PaymentRecord | undefined,
  isPaid: boolean,
): Promise<void> {
  const { store, paidBack } = world
  const refund = record && (await store.ledger.refundOf(record.row))
  assert.equal(record?.state === 'refunded', refund !== undefined, `${nonce}: refunded with a transfer back`)
  if (record === undefined) return
  const lost = await store.purchases.lostRefundsOf(record.purchaseId)
  for (const { transaction } of [...lost, ...(refund === undefined ? [] : [refund])])
    assert.equal(paidBack.get(transaction), nonce, `${nonce}: paid back by its own`)
  const back = lost.filter((one) => world.isOnChain(one))
  if (refund === undefined)
    // Both transfers left the chain, and only the one back returned: the seller's loss, as above.
    assert.ok(back.length === 0 || !isPaid, `${nonce}: it is ${record.state}, and a refund of it is on chain`)
  else {
    assert.ok(world.isOnChain(refund), `${nonce}: its refund is not on chain`)
    assert.equal(
      record.errorReason === refundedTwice,
      back.length > 0,
      `${nonce}: its seller was told of two`,
    )
    if (back.length > 0) world.seen.add('a refund that left the chain returns beside another one')
  }
}

/**
 * The seller works once for each claim at most, and for two claims of one payment at a time only where the first one's
 * process was taken for dead. A payment is claimed again only when nothing was sent for the claim before: so from the moment
 * that it lands the seller works only for the claim that is charged, where that is charged first; or for a process
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
    const call = world.requests.find(({ x }) => x.claim?.purchaseId === purchaseId)
    assert.ok(call?.x.errorCode, `${nonce}: the seller worked again for what it had answered well`)
  }
  const landedAtMs = world.chain.landedAtMs.get(key)
  if (landedAtMs === undefined) return
  const afterwards = own.filter(({ startedAtMs }) => startedAtMs > landedAtMs)
  const isFirst = record?.linkId === world.store.served[1]!.id
  assert.ok(
    afterwards.every(
      ({ purchaseId, by }) => (isFirst && purchaseId === record?.purchaseId) || world.wasTakenForDead(by),
    ),
    `${nonce}: the seller worked for nothing after the charge`,
  )
}

function signedReceiptOf(headers: readonly string[]): object | undefined {
  if (!headers.includes('PAYMENT-RESPONSE')) return undefined
  const header = headerOf(headers, 'PAYMENT-RESPONSE')!
  return JSON.parse(Buffer.from(header, 'base64').toString()).extensions?.['offer-receipt'].info.receipt
}

/** The call got its response as it arrived, with a head from before the charge. */
const isLive = (request: Asked): boolean => isStreamedLink(request) && request.x.claim !== null

function judgeReceipts(delivered: readonly Asked[], nonce: string): void {
  const [first, ...others] = delivered.map(({ transport }) => signedReceiptOf(transport.got!.headers))
  assert.ok(
    delivered.length === 0 || first !== undefined,
    `${nonce}: what was delivered has a signed receipt`,
  )
  for (const receipt of others) assert.deepEqual(receipt, first, `${nonce}: every signed receipt is the same`)
}

function judgeAnswers(world: World, payment: Signed, record: PaymentRecord | undefined): void {
  const { key, nonce } = payment
  const own = world.requests.filter((request) => request.payment === payment)
  // The buyer of a stream has it before the charge, which may have failed.
  const isForCharge = ({ x }: Asked) =>
    record?.state !== 'rejected' && x.claim?.purchaseId === record?.purchaseId
  const delivered = own.filter(
    (request) => request.transport.got?.status === 200 && (!isLive(request) || isForCharge(request)),
  )
  const first = delivered[0]
  for (const request of own) judgeReceiptOfFailure(request, nonce)
  judgeReceipts(
    delivered.filter((request) => !isLive(request)),
    nonce,
  )
  for (const { transport, what, process, lease } of delivered) {
    const { headers, body } = transport.got!
    assert.equal(
      headerOf(headers, 'X-Purchase-Id'),
      record?.purchaseId,
      `${nonce}: the purchase that was told`,
    )
    assert.equal(body, first!.transport.got!.body, `${nonce}: every answer is the same`)
    assert.equal(what, first!.what, `${nonce}: one payment buys one call`)
    // A process that lived on has noted what it handed over.
    if (!hasLivedOn(world, { process, lease })) continue
    const state = record?.state ?? ''
    assert.ok(
      ['delivered', 'refunded', 'failed_final'].includes(state) ||
        record?.errorReason === refundLeftChain ||
        world.hasReorganised,
      `${nonce} was delivered by a process that lives, and is ${state}`,
    )
  }
  if (record?.errorReason === 'never_delivered' && !world.hasReorganised)
    assert.ok(
      !hasAborted(world, own, record),
      `${nonce}: its buyer disconnected before its response, and a refund is due`,
    )
  if (record === undefined || record.state !== 'delivered') return
  if (record.errorReason === notCollected) {
    world.seen.add('an answer is never collected')
    const isNoted = delivered.some((request) => hasLivedOn(world, request))
    assert.ok(
      !isNoted && own.some(({ transport }) => transport.hasLeft),
      `${nonce}: no buyer has disconnected`,
    )
  } else {
    const isUndelivered = record.chargedAtomic === 0n || hasLeftStream(own, record)
    assert.ok(
      delivered.length > 0 || wasLost(own) || isUndelivered,
      `${nonce} is delivered, and no buyer got it`,
    )
  }
  const claim = world.ways.claims.find(({ purchaseId }) => purchaseId === record.purchaseId)
  assert.ok(claim, `${nonce}: expected it to be claimed`)
  for (const request of own) {
    if (!isToldUncharged(request)) continue
    // It was so when he heard it: a reorganisation has undone what he had done himself.
    if (world.hasReorganised && world.chain.takenBack.has(key)) continue
    // A request of the claim's own millisecond may have had its refusal just before: then the buyer paid again afterwards.
    const isOfIt: boolean =
      request.x.claim?.purchaseId === record.purchaseId || request.startedAtMs > claim.atMs
    assert.ok(
      !isOfIt,
      `${nonce}: its buyer was told that it was not charged: ${request.transport.got!.body} ${key}`,
    )
  }
}

const hasLivedOn = (world: World, { process, lease }: Pick<Asked, 'process' | 'lease'>): boolean =>
  !world.wasTakenForDead(process) && process.lease!.current.id === lease

/** The response was ready, at a process that lived on, when the buyer had disconnected. */
const hasAborted = (world: World, own: readonly Asked[], { purchaseId }: PaymentRecord): boolean =>
  own.some((request) => {
    const { x, transport } = request
    if (!hasLivedOn(world, request)) return false
    return (
      x.claim?.purchaseId === purchaseId &&
      transport.hasLeft &&
      x.isUnsent &&
      x.purchase !== null &&
      x.status === 200
    )
  })

/** A buyer who leaves while the seller works pays for that work. */
const hasLeftStream = (own: readonly Asked[], { purchaseId }: PaymentRecord): boolean =>
  own.some(
    (request) => isLive(request) && request.transport.hasLeft && request.x.claim?.purchaseId === purchaseId,
  )

/** Handed to a connection that ended before its buyer had read it. */
const wasLost = (request: readonly Asked[]): boolean => request.some(({ transport }) => transport.hasBegun)

function judgeReceiptOfFailure({ transport: { got } }: Asked, nonce: string): void {
  if (got === undefined || got.status === 200) return
  assert.equal(signedReceiptOf(got.headers), undefined, `${nonce}: what failed has no signed receipt`)
}

function isToldUncharged({ transport: { got } }: Asked): boolean {
  if (got === undefined || got.status === 200) return false
  if (got.status === 402 || got.status === 404) return true
  return /not charged|nothing was charged/i.test(got.body)
}

const headerOf = (headers: readonly string[], name: string) => headers[headers.indexOf(name) + 1]
