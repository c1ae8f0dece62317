import { setTimeout as sleep } from 'node:timers/promises'
import { entriesOfRefund } from '../domain/ledger.ts'
import { landedLate, type PaymentRecord, unresolvedStates } from '../domain/payment.ts'
import type { Chains } from '../plugin/ports.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import type { PaymentFilter, Payments } from '../ports/payments.ts'
import type { Purchases } from '../ports/purchases.ts'
import type { SettleOutcome } from '../ports/settler.ts'
import type { PurchaseNotes } from './purchaseNote.ts'
import { purchaseOf } from './purchaseOf.ts'

export interface ReconcilerParts {
  readonly payments: Payments
  readonly purchases: Pick<Purchases, 'find'>
  readonly chains: Chains
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  readonly clock: Clock
  readonly log: Log
  /** This process; what it takes over becomes its own. */
  readonly instanceId: string
}

export interface ReconcilerOptions {
  /** Between two rounds, in ms. */
  readonly intervalMs: number
  /** A process whose heartbeat is older than this has left its payments behind, in ms. */
  readonly silentAfterMs: number
  /** A payment of this process that has not moved for so long belongs to a call that broke, in ms. */
  readonly stuckAfterMs: number
  /** Ages at which a settled payment is looked up on chain once more, in ms. */
  readonly reorgCheckAgesMs: readonly number[]
  /** How long stored answers are kept, in ms; then a payment that was never answered is owed back. */
  readonly keepAnswersMs: number
}

export const defaultReconcilerOptions: ReconcilerOptions = {
  intervalMs: 2_000,
  silentAfterMs: 10_000,
  stuckAfterMs: 120_000,
  reorgCheckAgesMs: [30_000, 300_000],
  keepAnswersMs: 86_400_000,
}

/** Finishes or fails what a crash, a timeout or a reorganisation left open. Every step is conditional and may be repeated. */
export interface Reconciler {
  /** One round over everything that is open. @returns how many payments moved. */
  round(): Promise<number>
  /** Rounds until the signal; the first one at once, so that a restart recovers before it is asked. */
  run(signal: AbortSignal): Promise<void>
}

const PAGE = 200
/** Payments that are looked after at once: a round over hundreds is not to take as long as so many answers of a node. */
const AT_ONCE = 32
/** Kept with a payment whose transfer left the chain, so that it is not owed back when it returns. */
const reorgedAfterDelivery = 'reorged_after_delivery'
/** How long an installation may have been down without a settled payment escaping the check for reorganisations. */
const RESTART_MS = 600_000

export function createReconciler(
  parts: ReconcilerParts,
  options: Partial<ReconcilerOptions> = {},
): Reconciler {
  const { payments, purchases, chains, notes, clock, log, instanceId } = parts
  const { intervalMs, silentAfterMs, stuckAfterMs, reorgCheckAgesMs, keepAnswersMs } = {
    ...defaultReconcilerOptions,
    ...options,
  }
  // What was settled shortly before a restart is looked at as well.
  let lastReorgCheckMs = clock.now() - RESTART_MS
  /** From the beginning of all sales, once: nobody knows how long nobody looked. */
  let lastForgottenMs = RESTART_MS

  /** Payments that were taken over to be freed, and are not freed yet. */
  const unfinished = new Map<string, PaymentRecord>()

  async function round(): Promise<number> {
    const now = clock.now()
    const silentOwnersBeforeMs = now - silentAfterMs
    let moved = 0
    const each = async (
      records: AsyncIterable<PaymentRecord>,
      step: (record: PaymentRecord) => Promise<boolean>,
    ) => {
      const takeNext = async (): Promise<void> => {
        for await (const record of records) {
          const did = await step(record).catch((err: unknown) => {
            log.warn(
              { err, purchaseId: record.purchaseId, state: record.state },
              'could not reconcile a payment; trying again',
            )
            return false
          })
          if (did) moved++
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, takeNext))
    }
    const early = ['claimed', 'verified'] as const
    await freeUnfinished()
    await each(pages({ states: early, silentOwnersBeforeMs }), free)
    await each(pages({ states: early, updatedBeforeMs: now - 60 * stuckAfterMs }), free)
    await each(pages({ states: unresolvedStates, silentOwnersBeforeMs }), resolve)
    await each(pages({ states: ['pending', 'reorged'] }), resolve)
    await each(pages({ states: ['settling'], updatedBeforeMs: now - stuckAfterMs }), resolve)
    // Charged first, and the process ended before the seller had answered: nobody will answer that call any more.
    await each(pages({ states: ['settled'], silentOwnersBeforeMs, isUnanswered: true }), owe)
    for (const ageMs of reorgCheckAgesMs) {
      const window = { updatedAfterMs: lastReorgCheckMs - ageMs, updatedBeforeMs: now - ageMs }
      await each(pages({ states: ['settled', 'delivered'], ...window }), checkReorg)
    }
    lastReorgCheckMs = now
    await each(pages({ states: ['settled'], updatedBeforeMs: now - keepAnswersMs }), owe)
    const forgetBeforeMs = now - keepAnswersMs
    await payments.forgetAnswers(lastForgottenMs - RESTART_MS, forgetBeforeMs)
    lastForgottenMs = forgetBeforeMs
    return moved
  }

  /** All of them, page by page, so that many that can't be resolved do not hide the others. */
  async function* pages(filter: Omit<PaymentFilter, 'limit'>): AsyncGenerator<PaymentRecord> {
    const seen = new Set<string>()
    let updatedAfterMs = filter.updatedAfterMs
    for (;;) {
      const from = updatedAfterMs === undefined ? {} : { updatedAfterMs }
      const page = await payments.list({ ...filter, ...from, limit: PAGE })
      const fresh = page.filter(({ key }) => !seen.has(key))
      for (const record of fresh) {
        seen.add(record.key)
        yield record
      }
      if (page.length < PAGE) return
      // Rows of one millisecond may fill a page: they come again until they are through, then the next millisecond's.
      const last = page.at(-1)!.updatedAtMs
      updatedAfterMs = fresh.length === 0 ? last + 1 : last
    }
  }

  /** Nothing was broadcast: the buyer may use the payment again. */
  async function free(record: PaymentRecord): Promise<boolean> {
    // Should the store go away in between, the row is this process's own, and nobody would look at it for long.
    unfinished.set(record.key, record)
    const isFreed =
      (await own(record)) &&
      (await payments.advance(record.key, instanceId, record.state, 'rejected', 'abandoned'))
    unfinished.delete(record.key)
    return isFreed
  }

  /** Frees what an earlier round took over and could not free, unless it was freed all the same and claimed anew. */
  async function freeUnfinished(): Promise<void> {
    for (const { key, purchaseId, state } of [...unfinished.values()]) {
      const now = await payments.find(key)
      const isTheSame = now?.purchaseId === purchaseId && now.state === state
      if (isTheSame && now.owner === instanceId) await free(now)
      unfinished.delete(key)
    }
  }

  async function resolve(listed: PaymentRecord): Promise<boolean> {
    const record = await takeUp(listed)
    if (record === undefined) return false
    const settler = chains.settler(record.network)
    if (settler === undefined) {
      log.warn(
        { purchaseId: record.purchaseId, network: record.network },
        'an open payment is on a network that is not configured',
      )
      return false
    }
    const isMoved = await conclude(record, await settler.recover(record))
    return isMoved || record.state !== listed.state
  }

  /**
   * Makes an open payment this round's own: the call that began to settle it may still run, and once it is pending that
   * call can no longer say that nothing was sent.
   */
  async function takeUp(record: PaymentRecord): Promise<PaymentRecord | undefined> {
    if (!(await own(record))) return undefined
    if (record.state !== 'settling') return record
    if (!(await payments.advance(record.key, instanceId, 'settling', 'pending', 'settlement_pending'))) {
      return undefined
    }
    return payments.find(record.key)
  }

  async function conclude(record: PaymentRecord, outcome: SettleOutcome): Promise<boolean> {
    switch (outcome.status) {
      case 'settled':
        return recordSale(record, outcome.transaction)
      case 'failed_final':
        log.info(
          { purchaseId: record.purchaseId, reason: outcome.reason },
          'a payment can never land; nothing was charged',
        )
        return payments.advance(record.key, instanceId, record.state, 'failed_final', outcome.reason)
      case 'pending':
      case 'rejected':
        return false
    }
  }

  async function recordSale(record: PaymentRecord, transaction: string): Promise<boolean> {
    const asset = chains.assets.find(
      (a) => a.network === record.network && sameAddress(a.address, record.asset),
    )
    if (asset === undefined)
      throw new Error(`asset ${record.asset} of an open payment is not configured any more`)
    const reviewTokenHash = notes.tokenHash(record.purchaseId)
    const { purchase, entries } = purchaseOf(
      { ...record, transaction, reviewTokenHash, atMs: clock.now() },
      asset,
    )
    const done = await payments.settle(record.key, instanceId, transaction, purchase, entries)
    log.info({ purchaseId: record.purchaseId, transaction, done }, 'an open payment was found on chain')
    // It left the chain and is there again; the buyer has had the answer all along.
    if (done && record.errorReason === reorgedAfterDelivery)
      await payments.moveCharged(record.key, 'settled', 'delivered', [])
    // Nothing to hand out when the buyer comes back. Where the seller was never asked it can be asked then; after a
    // reorganisation nobody knows.
    else if (done && record.answer === null) {
      const reason = record.state === 'reorged' ? 'never_delivered' : landedLate
      await payments.moveCharged(record.key, 'settled', 'refund_due', [], reason)
    }
    return done
  }

  async function checkReorg(record: PaymentRecord): Promise<boolean> {
    if ((await chains.settler(record.network)?.stillOnChain(record)) !== 'no') return false
    log.error(
      { purchaseId: record.purchaseId, transaction: record.transaction },
      'a settled payment left the chain',
    )
    const purchase = await purchases.find(record.purchaseId)
    // The sale is taken out of the books; it is booked anew when the transfer comes back.
    const entries = purchase === undefined ? [] : entriesOfRefund(purchase)
    const reason = record.state === 'delivered' ? reorgedAfterDelivery : 'reorged'
    return payments.moveCharged(record.key, record.state, 'reorged', entries, reason)
  }

  const owe = (record: PaymentRecord) =>
    payments.moveCharged(record.key, 'settled', 'refund_due', [], 'never_delivered')

  async function own(record: PaymentRecord): Promise<boolean> {
    return record.owner === instanceId || payments.takeOver(record.key, record.owner, instanceId)
  }

  return {
    round,
    async run(signal) {
      while (!signal.aborted) {
        await round().catch((err: unknown) => log.warn({ err }, 'a round of the reconciler failed'))
        await sleep(intervalMs, undefined, { signal, ref: false }).catch(() => undefined)
      }
    },
  }
}

const sameAddress = (a: string, b: string) =>
  a === b || (a.startsWith('0x') && a.toLowerCase() === b.toLowerCase())
