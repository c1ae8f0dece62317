import { createHash } from 'node:crypto'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../core/domain/payment.ts'
import type { Hold, OnChain, Refusal, SettleOutcome, Settler } from '../../core/ports/chains/settler.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { testNetwork } from '../helpers/settler.ts'
import type { Authorisation, Chain, View } from './chain.ts'
import type { Scheduler } from './scheduler.ts'

/** As the EVM settler's defaults. */
const EXPIRY_MARGIN_MS = 30_000
const RECEIPT_TIMEOUT_MS = 20_000
const MIN_LEAD_MS = 2_000

/** What an attempt's bytes say. */
interface SignedBytes {
  readonly scheme: string
  /** In the smallest unit. */
  readonly amount: string
  /** Makes the bytes unique. */
  readonly by: string
}

const pendingReason = 'settlement_pending'

/** Ways to the chain that fail as the seed says. */
export interface ChainFaults {
  /** While false, nodes answer at once and know everything. */
  isFaulty: boolean
}

/**
 * One process's settler of the simulated chain. It decides as the EVM one does (adapters/chains/evm): bytes are stored
 * before they are sent, the same bytes are sent again, what another party sent counts, nothing is given up before the
 * chain's own time is past the authorisation's end, and absence is believed of a node only that is past the block.
 */
export function createSimulatedSettler(
  chain: Chain,
  scheduler: Scheduler,
  clock: Clock,
  faults: ChainFaults,
  onSending: (key: string) => Promise<void>,
): Settler {
  /** Sums on their way, of payments of this process that were verified. */
  const held = new Map<string, number>()
  let highestSeen = 0
  let signed = 0

  const fails = (probability: number) => faults.isFaulty && scheduler.chance(probability)

  /** One call to a node. @throws when it does not answer; it may have done what it was asked for */
  async function ask<T>(what: (view: View) => T): Promise<T> {
    await scheduler.wait(scheduler.between(20, 50))
    if (fails(0.04)) throw new Error('the node did not answer')
    const response = what(chain.view(fails(0.15) ? scheduler.between(1, 4) : 0))
    await scheduler.wait(scheduler.between(20, 50))
    if (fails(0.04)) throw new Error('the answer was lost')
    return response
  }

  function authorisationOf(
    { scheme, amount }: SignedBytes,
    { key, payer, validBeforeMs }: PaymentIdentity,
  ): Authorisation {
    const signed = { key, payer, validBeforeMs, value: Number(amount) }
    // Its proxy pays out an amount up to the signed one, and to this facilitator only.
    return scheme === 'upto' ? { ...signed, isBound: true } : signed
  }

  const send = ({ transaction, bytes }: SettlementAttempt, identity: PaymentIdentity) =>
    ask(() => chain.send({ hash: transaction, uses: [authorisationOf(JSON.parse(bytes), identity)] }))

  const pendingOf = (attempt: SettlementAttempt | null): SettleOutcome & { status: 'pending' } => ({
    status: 'pending',
    transaction: attempt?.transaction ?? '',
    reason: pendingReason,
  })

  /** What one look at the chain says of a payment; undefined while it may still land. */
  function judge(
    view: View,
    record: PaymentRecord | (PaymentIdentity & { attempt: SettlementAttempt | null }),
  ) {
    const { key, attempt, validBeforeMs } = record
    const landed = view.landed.get(key)
    if (landed !== undefined) {
      const { hash: transaction, event, block, value } = landed
      return { status: 'settled', transaction, event, block, chargedAtomic: BigInt(value) } as const
    }
    const transaction = attempt?.transaction ?? ''
    if (view.cancelled.has(key))
      return { status: 'failed_final', transaction, reason: 'nonce_used', message: 'taken back' } as const
    const isReverted = view.receipts.has(transaction)
    if (view.timestampMs >= validBeforeMs + EXPIRY_MARGIN_MS) {
      const reason = isReverted ? 'invalid_exact_evm_transaction_failed' : 'expired'
      return { status: 'failed_final', transaction, reason, message: 'It expired unused.' } as const
    }
    if (!isReverted) return undefined
    const reason = 'invalid_exact_evm_transaction_failed'
    return { status: 'pending', transaction, reason, message: 'reverted', recheckMs: 60_000 } as const
  }

  /** What came of bytes that were just sent, within the time that a call waits. */
  async function land(attempt: SettlementAttempt, identity: PaymentIdentity): Promise<SettleOutcome> {
    const { transaction } = attempt
    await send(attempt, identity).catch(() => undefined)
    const endMs = scheduler.nowMs + RECEIPT_TIMEOUT_MS
    while (scheduler.nowMs < endMs) {
      await scheduler.wait(800)
      const found = await ask((view) =>
        view.receipts.has(transaction) ? judge(view, { ...identity, attempt }) : undefined,
      ).catch(() => undefined)
      if (found !== undefined) return found
    }
    return pendingOf(attempt)
  }

  const settler: Settler = {
    id: 'simulated',
    network: testNetwork,
    schemes: ['exact', 'upto'],
    offerExtra: () => ({}),

    check(payment, terms) {
      const { payer, nonce, validBeforeMs } = payment.payload as Record<string, string | number>
      const key = createHash('sha256').update(`${payer}|${nonce}`).digest('hex')
      const { network, asset, payTo, amount } = terms
      const identity: PaymentIdentity = {
        key,
        network,
        asset,
        payTo,
        payer: String(payer),
        nonce: String(nonce),
        amountAtomic: BigInt(amount),
        validBeforeMs: Number(validBeforeMs),
      }
      if (clock.now() < identity.validBeforeMs) return { ok: true, identity }
      return { ok: false, reason: 'expired', message: 'The authorization is over.', identity }
    },

    async verify(_payment, _terms, identity) {
      const { key, payer } = identity
      const value = Number(identity.amountAtomic)
      const refused = await ask((view): Refusal | undefined => {
        if (view.landed.has(key) || view.cancelled.has(key))
          return { ok: false, reason: 'nonce_used', message: 'used' }
        const isCovered = view.balanceOf(payer) >= value + (held.get(payer) ?? 0)
        return isCovered ? undefined : { ok: false, reason: 'insufficient_balance', message: 'too little' }
      }).catch((): Refusal => ({ ok: false, reason: 'rpc', message: 'away', transient: true }))
      if (refused !== undefined) return refused
      held.set(payer, (held.get(payer) ?? 0) + value)
      let isHeld = true
      const hold: Hold = {
        release() {
          if (isHeld) held.set(payer, held.get(payer)! - value)
          isHeld = false
        },
      }
      return { ok: true, hold }
    },

    async settle(_payment, { scheme, amount }, identity, store, hold) {
      try {
        if (identity.validBeforeMs - clock.now() < MIN_LEAD_MS)
          return { status: 'rejected', reason: 'expired', message: 'It ends too soon.' }
        if (fails(0.03)) return { status: 'rejected', reason: 'fees', message: 'not now', transient: true }
        const sequence = String(signed++)
        const by = `${identity.key}-${scheduler.owner!.name}-${sequence}`
        const bytes = JSON.stringify({ scheme, amount, by } satisfies SignedBytes)
        const transaction = `0x${createHash('sha256').update(bytes).digest('hex')}`
        const attempt: SettlementAttempt = { settler: 'simulated', bytes, transaction, sequence }
        const isStored = await store(attempt).catch(() => false)
        if (!isStored)
          return { status: 'rejected', reason: 'not_stored', message: 'It could not begin.', transient: true }
        await onSending(identity.key)
        // Known after the bytes were stored: a facilitator that refuses what it was sent.
        if (fails(0.08)) return { status: 'rejected', reason: 'refused', message: 'nothing was sent' }
        if (fails(0.02)) throw new Error('broke before the broadcast')
        const outcome = await land(attempt, identity)
        if (fails(0.02)) throw new Error('broke after the broadcast')
        return outcome
      } finally {
        hold?.release()
      }
    },

    async recover(records) {
      const outcomes: SettleOutcome[] = records.map(({ attempt }) => pendingOf(attempt))
      const head = await ask((view) => view).catch(() => undefined)
      if (head === undefined) return outcomes
      highestSeen = Math.max(highestSeen, head.number)
      for (const [i, record] of records.entries()) {
        const { attempt } = record
        const found = judge(head, record)
        if (found !== undefined) outcomes[i] = found
        else if (head.timestampMs < record.validBeforeMs && attempt !== null && attempt.bytes !== '') {
          const isSent = await send(attempt, record).catch(() => false)
          if (isSent === 'yes') outcomes[i] = { ...pendingOf(attempt), recheckMs: 2_000 }
        }
      }
      return outcomes
    },

    async stillOnChain(records) {
      const before = highestSeen
      const head = await ask((view) => view).catch(() => undefined)
      if (head === undefined || head.number < before) return records.map(() => 'unknown')
      highestSeen = head.number
      return records.map(({ key, block, transaction, event }): OnChain => {
        const landed = head.landed.get(key)
        if (landed?.hash === transaction && landed?.event === event) return 'yes'
        return block !== null && head.number <= block ? 'unknown' : 'no'
      })
    },

    async start() {},
    async diagnose() {
      return []
    },
    async close() {},
  }
  return settler
}
