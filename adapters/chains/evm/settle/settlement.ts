import { setTimeout as sleep } from 'node:timers/promises'
import type { PaymentIdentity, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import type { Budgets, Flight } from '../../budgets.ts'
import { noPlaceRefusals, refuse, refuseForNow } from '../../refuse.ts'
import type { VerifyPayment } from '../check/verifyPayment.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { judgeReceipt } from '../prove/judgeReceipt.ts'
import { reasons } from '../reasons.ts'
import type { Batches } from './batches.ts'
import { costOf } from './costOf.ts'
import type { EvmKeys } from './evmKeys.ts'
import type { Sent } from './landing.ts'
import type { PaymentCall, PaymentCalls } from './paymentCalls.ts'
import type { Store } from './settlingAccount.ts'

/** A transfer that is broadcast later than this before its end would be mined too late. */
const MIN_LEAD_MS = 2_000
/** Before a node that could not say what became of a payment, or whether it may be sent alone, is asked again, in ms; then ever rarer. */
const ASK_AGAIN_MS = 100

export interface SettlementParts {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly keys: EvmKeys
  readonly budgets: Budgets
  readonly calls: PaymentCalls
  readonly batches: Batches
  /** Whether a payment was verified to come from an account without code. */
  readonly isPlain: (flight: Flight) => boolean
  readonly verifyPayment: VerifyPayment
}

/**
 * Makes the way of one payment to the chain: sign, store, broadcast, wait, prove. Until the bytes are stored everything
 * that goes wrong is `rejected`; from then on nothing is, because they can land.
 */
export function createSettlement(parts: SettlementParts): Settler['settle'] {
  const { options, rpc, keys, budgets, calls, batches } = parts
  const { network, clock, log } = options

  const signAlone = async ({ call, gas }: PaymentCall, store: Store): Promise<Sent | Refusal> => {
    const sending = await keys.send(call, gas, [store])
    return sending.ok ? (sending.sent ?? notBegun) : sending
  }

  /** Signed, stored and on its way, by itself or with others. */
  const send = async (prepared: PaymentCall, store: Store, flight: Flight): Promise<Sent | Refusal> => {
    // Nobody else is on the way to whom it could be joined: it waits for nobody.
    const joins = budgets.inFlight > 1 && batches.isOn && parts.isPlain(flight)
    const noting: Store = (attempt) => {
      flight.signed(true)
      return store(attempt)
    }
    const sent = joins ? await batches.join(prepared.call, noting) : 'alone'
    if (sent === 'not_stored') return notBegun
    if (sent !== 'alone') return sent
    // What others kept from being sent is signed once more.
    flight.signed(false)
    return signAlone(prepared, noting)
  }

  const prove = async (
    { attempt, payments, receipt: landing }: Sent,
    identity: PaymentIdentity,
  ): Promise<Landed> => {
    const receipt = await landing
    if (receipt === undefined) return { outcome: pendingOf(attempt) }
    const judge = () => judgeReceipt(rpc, receipt, identity, clock.now(), payments > 1)
    // Of several, one that was left out is sent alone, now or never: what the node can't say is asked again.
    const outcome = payments > 1 ? await insist(judge, isOpen, identity) : await judge()
    // Mined for nothing is no end: somebody else may send the same authorisation once more.
    if (outcome.status !== 'settled' && 'message' in outcome) {
      log.warn(
        { network, transaction: outcome.transaction, reason: outcome.reason, payments },
        'a settlement failed on chain',
      )
    }
    return { outcome, gas: costOf(receipt, payments, attempt.bytes, options) }
  }

  /** Asks until there is an answer, for as long as a call waits for its receipt, and while the payment can land. */
  const insist = async <T>(
    ask: () => Promise<T>,
    isNone: (answer: T) => boolean,
    { validBeforeMs }: PaymentIdentity,
  ): Promise<T> => {
    const endMs = performance.now() + options.receiptTimeoutMs
    for (let pauseMs = ASK_AGAIN_MS; ; pauseMs *= 2) {
      const answer = await ask()
      const isOver =
        performance.now() + pauseMs >= endMs || validBeforeMs - clock.now() < MIN_LEAD_MS + pauseMs
      if (!isNone(answer) || isOver) return answer
      await sleep(pauseMs, undefined, { ref: false })
    }
  }

  /** Whether a payment could land by itself now. @returns `unknown` while nobody can say */
  const judgeAlone = async (payment: PaymentPayload, identity: PaymentIdentity) => {
    try {
      const affords = await keys.judge(1)
      if (!affords.ok) return 'unknown'
      const prepared = await calls.prepare(payment, identity)
      if (!prepared.ok) return prepared.transient ? 'unknown' : undefined
      const { from, fees } = affords
      const verified = await parts.verifyPayment(from, prepared, identity.asset, fees, 0n)
      if (verified.ok) return 'good'
      return verified.transient ? 'unknown' : undefined
    } catch {
      return 'unknown'
    }
  }

  /**
   * Among others a call can fail for a reason that is not its own. What could land by itself is sent once more, with bytes of
   * its own: those of before are mined, and a token takes an authorisation once.
   *
   * @returns undefined when nothing was sent, or can be; else what may be found in the books, and be sent from there
   */
  const sendAlone = async (
    prepared: PaymentCall,
    payment: PaymentPayload,
    identity: PaymentIdentity,
    store: Store,
  ): Promise<Sent | Pick<Sent, 'attempt'> | undefined> => {
    if (identity.validBeforeMs - clock.now() < MIN_LEAD_MS) return undefined
    const judge = () => judgeAlone(payment, identity)
    if ((await insist(judge, (answer) => answer === 'unknown', identity)) !== 'good') return undefined
    let attempt: SettlementAttempt | undefined
    const noting: Store = async (given) => {
      attempt = given
      const isStored = await store(given)
      if (!isStored) attempt = undefined
      return isStored
    }
    try {
      const sent = await signAlone(prepared, noting)
      if ('attempt' in sent) return sent
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not be sent alone')
    }
    return attempt && { attempt }
  }

  const settle = async (
    payment: PaymentPayload,
    identity: PaymentIdentity,
    store: Store,
    flight: Flight,
  ): Promise<Landed> => {
    const prepared = await calls.prepare(payment, identity)
    if (!prepared.ok) return rejected(prepared)
    let sent: Sent | Refusal = notBegun
    let likelyWei = 0n
    try {
      await keys.lookForOthers()
      const affords = await keys.judge(1)
      if (!affords.ok) return rejected(affords)
      likelyWei = BigInt(prepared.gas) * affords.gasPriceWei
      const why = flight.reserve(likelyWei)
      if (why !== undefined) return rejected(noPlaceRefusals[why])
      sent = await send(prepared, store, flight)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not begin')
    }
    if ('ok' in sent) return rejected(sent)
    const landed = await prove(sent, identity)
    const isLeftOut = landed.outcome.status === 'pending' && landed.outcome.message !== undefined
    if (sent.payments === 1 || !isLeftOut) return landed
    const again = await sendAlone(prepared, payment, identity, store)
    if (again === undefined) return landed
    // Whoever finds what becomes of it from now on knows of the second only.
    flight.spent(landed.gas ?? likelyWei)
    if (!('receipt' in again)) return { outcome: pendingOf(again.attempt) }
    const alone = await prove(again, identity)
    if (alone.outcome.status === 'settled') batches.distrust()
    return alone
  }

  return async (payment, _terms, identity, store, hold) => {
    const flight = budgets.of(hold) ?? budgets.take(identity, '')
    if (typeof flight === 'string') return { ...noPlaceRefusals[flight], status: 'rejected' }
    if (!flight.begin()) return { ...notBegun, status: 'rejected' }
    let landed = rejected(tooLate)
    try {
      const leadMs = identity.validBeforeMs - clock.now()
      if (leadMs >= MIN_LEAD_MS) landed = await settle(payment, identity, store, flight)
    } finally {
      flight.end(landed.outcome, landed.gas)
    }
    return landed.outcome
  }
}

/** An outcome, and what it cost in wei where a receipt says so. */
interface Landed {
  readonly outcome: SettleOutcome
  readonly gas?: bigint | undefined
}

/** Nobody could say what became of it. */
const isOpen = (outcome: SettleOutcome): boolean =>
  outcome.status === 'pending' && outcome.message === undefined

const pendingOf = ({ transaction }: SettlementAttempt) =>
  ({ status: 'pending', transaction, reason: reasons.pending }) as const

const rejected = ({ reason, message, transient }: Refusal): Landed => ({
  outcome: { status: 'rejected', reason, message, ...(transient && { transient }) },
})

const tooLate = refuse(reasons.validBefore, 'The authorization ends too soon to be settled. Sign a new one.')

const notBegun = refuseForNow(
  reasons.settleFault,
  'The settlement could not begin. Try again with the same payment; nothing was charged.',
)
