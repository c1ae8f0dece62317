import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { hasNonce, type PaymentIdentity, type SettlementAttempt } from '../../../../core/domain/payment.ts'
import { isPermit2Nonce } from '../../../../core/evm/permit2.ts'
import { type ExpectedTransfer, findTransfer, type Receipt } from '../../../../core/evm/transferProof.ts'
import type { Hold, Refusal, SettleOutcome, TracedRecord } from '../../../../core/ports/chains/settler.ts'
import { quantity } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import type { Budgets, Flight } from '../../budgets.ts'
import { admissionRefusals, refuse, refuseForNow } from '../../refusals.ts'
import type { PaymentCall, PaymentCalls } from '../check/paymentCalls.ts'
import { transfersIn } from '../check/transferCalls.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { findAuthorizations, type Judged, outcomeOf } from '../prove/authorizations.ts'
import { reasons } from '../reasons.ts'
import type { Store } from './account.ts'
import type { Batches } from './batches.ts'
import type { Backed, EvmKeys } from './keys.ts'
import type { Sent } from './receipts.ts'
import { callOf, limitsOf } from './transaction.ts'

/** Shortest time between broadcast and expiry of a transfer, in ms. A later transaction could be mined after the expiry. */
const MIN_LEAD_MS = 2_000
/**
 * Age of a verification, in ms, from which a payment by Permit2 is simulated again before it is signed. Since then, the payer may
 * have withdrawn what was verified.
 */
const RECHECK_AFTER_MS = 2_000
/**
 * First pause in ms before the nodes are asked again for a payment's outcome, or whether the payment can be sent alone. Each
 * further pause is longer.
 */
const RETRY_MS = 100

export interface SettlementDeps {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly keys: EvmKeys
  readonly budgets: Budgets
  readonly calls: PaymentCalls
  readonly batches: Batches
  /** Whether the payer's account had no contract code when the payment was verified. */
  readonly isPlain: (flight: Flight) => boolean
}

/**
 * Settles one payment. The steps are sign, store, broadcast, wait and prove. Until the bytes are stored, every failure is
 * `rejected`. Afterwards no failure is, because the transaction can still land.
 */
export class Settlement {
  readonly #deps: SettlementDeps

  constructor(deps: SettlementDeps) {
    this.#deps = deps
  }

  /** @param terms its `amount` is what a payment by `upto` is charged */
  async settle(
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
    store: Store,
    hold?: Hold,
  ): Promise<SettleOutcome> {
    const { budgets, options } = this.#deps
    const amountAtomic = terms.scheme === 'upto' ? BigInt(terms.amount) : identity.amountAtomic
    if (amountAtomic > identity.amountAtomic) return { ...exceeding, status: 'rejected' }
    const flight = budgets.of(hold) ?? budgets.take(identity, '')
    if (typeof flight === 'string') return { ...admissionRefusals[flight], status: 'rejected' }
    if (!flight.begin()) return { ...notBegun, status: 'rejected' }
    let landed = rejected(tooLate)
    try {
      const leadMs = identity.validBeforeMs - options.clock.now()
      if (leadMs >= MIN_LEAD_MS)
        landed = await this.#settle(payment, { ...identity, amountAtomic }, store, flight)
    } finally {
      flight.end(landed.outcome, landed.gas)
    }
    return landed.outcome
  }

  /** @param identity with the amount to charge */
  async #settle(
    payment: PaymentPayload,
    identity: PaymentIdentity,
    store: Store,
    flight: Flight,
  ): Promise<Landed> {
    const { options, keys, calls, batches } = this.#deps
    const prepared = await calls.prepare(payment, identity, identity.amountAtomic)
    if (!prepared.ok) {
      // The payer has used up the permit of its token since the verification, so this counts as a failure of the payer.
      if (prepared.transient !== true) flight.refused()
      return rejected(prepared)
    }
    let sent: Sent | Refusal = notBegun
    let likelyWei = 0n
    try {
      await keys.checkSharing()
      const affords = await keys.judge(1, prepared.sender)
      if (!affords.ok) return rejected(affords)
      const withdrawn = await this.#withdrawn(prepared, identity, affords, flight)
      if (withdrawn !== undefined) {
        flight.refused()
        return rejected(withdrawn)
      }
      likelyWei = BigInt(prepared.gas) * affords.gasPriceWei
      const why = flight.reserve(likelyWei)
      if (why !== undefined) return rejected(admissionRefusals[why])
      sent = await this.#send(prepared, store, flight)
    } catch (error) {
      options.log.warn({ network: options.network, error: String(error) }, 'a settlement could not begin')
    }
    if ('ok' in sent) return rejected(sent)
    const landed = await this.#prove(sent, identity)
    const isLeftOut = landed.outcome.status === 'pending' && landed.outcome.message !== undefined
    if (sent.payments === 1 || !isLeftOut) return landed
    const again = await this.#sendAlone(prepared, payment, identity, store)
    if (again === undefined) return landed
    // From here on, recovery counts the cost of the second transaction only, so the cost of the batch is counted now.
    flight.spent(landed.gas ?? likelyWei)
    if (!('receipt' in again)) return { outcome: pendingOf(again.attempt) }
    const alone = await this.#prove(again, identity)
    if (alone.outcome.status === 'settled') batches.distrust()
    return alone
  }

  /**
   * Why a payment by Permit2 that was verified a while ago cannot land any more. Undefined if it can, and if no node responds. Any
   * account can settle `exact`, so if its nonce is used, the payment may have landed, which only the proof finds out.
   */
  async #withdrawn(
    prepared: PaymentCall,
    { asset }: PaymentIdentity,
    { from, fees }: Extract<Backed, { ok: true }>,
    { sinceMs }: Flight,
  ): Promise<Refusal | undefined> {
    const { options, calls } = this.#deps
    const isPermit2 = prepared.authorization.permit2 !== undefined
    if (!isPermit2 || options.clock.now() - sinceMs < RECHECK_AFTER_MS) return undefined
    const simulated = await calls.simulate(from, prepared, asset, fees, 0n)
    if (simulated.ok || simulated.transient === true) return undefined
    return prepared.sender === null && simulated.reason === reasons.permit2Nonce ? undefined : simulated
  }

  /** Signs, stores and sends the payment, alone or in a batch. */
  async #send(prepared: PaymentCall, store: Store, flight: Flight): Promise<Sent | Refusal> {
    const { budgets, batches, isPlain } = this.#deps
    // A payment joins a batch only if other payments are in flight. Otherwise it is sent at once.
    const joins = budgets.inFlight > 1 && batches.isOn && isPlain(flight)
    const noting: Store = (attempt) => {
      flight.signed(true)
      return store(attempt)
    }
    const sent = joins ? await batches.join(prepared.call, noting) : 'alone'
    if (sent === 'not_stored') return notBegun
    if (sent !== 'alone') return sent
    // The batch did not send this payment's bytes, because another payment of the batch was not stored. So this payment is signed
    // again.
    flight.signed(false)
    return this.#signAlone(prepared, noting)
  }

  async #signAlone({ call, gas, sender }: PaymentCall, store: Store): Promise<Sent | Refusal> {
    const sending = await this.#deps.keys.send(call, gas, [store], sender)
    return sending.ok ? (sending.sent ?? notBegun) : sending
  }

  async #prove({ attempt, payments, receipt: landing }: Sent, identity: PaymentIdentity): Promise<Landed> {
    const { options, rpc } = this.#deps
    const receipt = await landing
    if (receipt === undefined) return { outcome: pendingOf(attempt) }
    const withCall = isPermit2Nonce(identity.nonce) ? { ...receipt, call: callOf(attempt.bytes) } : receipt
    const judge = () => judgeReceipt(rpc, withCall, identity, options.clock.now(), payments > 1)
    // Only a payment that failed in its batch can be sent alone, so an unclear response of the node is retried.
    const outcome = payments > 1 ? await this.#insist(judge, isOpen, identity) : await judge()
    // A transaction without effect is not final, because any account may send the same authorization again.
    if (outcome.status !== 'settled' && 'message' in outcome) {
      options.log.warn(
        {
          network: options.network,
          transaction: outcome.transaction,
          reason: outcome.reason,
          payments,
        },
        'a settlement failed on chain',
      )
    }
    return { outcome, gas: costOf(receipt, payments, attempt.bytes, options) }
  }

  /**
   * A call can fail in a batch because of the other calls. If the payment could land alone, this function sends it in a transaction
   * of its own. This is safe because a token accepts an authorization only once.
   * @returns the second attempt, which the ledger may have stored even if it was not sent from here; undefined if there is none
   */
  async #sendAlone(
    prepared: PaymentCall,
    payment: PaymentPayload,
    identity: PaymentIdentity,
    store: Store,
  ): Promise<Sent | Pick<Sent, 'attempt'> | undefined> {
    const { network, clock, log } = this.#deps.options
    if (identity.validBeforeMs - clock.now() < MIN_LEAD_MS) return undefined
    const judge = () => this.#judgeAlone(payment, identity)
    if ((await this.#insist(judge, (response) => response === 'unknown', identity)) !== 'good')
      return undefined
    let attempt: SettlementAttempt | undefined
    const noting: Store = async (given) => {
      attempt = given
      const isStored = await store(given)
      if (!isStored) attempt = undefined
      return isStored
    }
    try {
      const sent = await this.#signAlone(prepared, noting)
      if ('attempt' in sent) return sent
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not be sent alone')
    }
    return attempt && { attempt }
  }

  /** Whether a payment could land alone now. @returns `unknown` if no node responds or the key cannot pay now */
  async #judgeAlone(
    payment: PaymentPayload,
    identity: PaymentIdentity,
  ): Promise<'good' | 'unknown' | undefined> {
    const { keys, calls } = this.#deps
    try {
      const affords = await keys.judge(1)
      if (!affords.ok) return 'unknown'
      const prepared = await calls.prepare(payment, identity, identity.amountAtomic)
      if (!prepared.ok) return prepared.transient ? 'unknown' : undefined
      const verified = await calls.simulate(affords.from, prepared, identity.asset, affords.fees, 0n)
      if (verified.ok) return 'good'
      return verified.transient ? 'unknown' : undefined
    } catch {
      return 'unknown'
    }
  }

  /** Retries until there is a result, while the payment can land, but no longer than a call waits for its receipt. */
  async #insist<T>(
    attempt: () => Promise<T>,
    isNone: (response: T) => boolean,
    { validBeforeMs }: PaymentIdentity,
  ): Promise<T> {
    const { clock, receiptTimeoutMs } = this.#deps.options
    const endMs = performance.now() + receiptTimeoutMs
    for (let pauseMs = RETRY_MS; ; pauseMs *= 2) {
      const response = await attempt()
      const isOver =
        performance.now() + pauseMs >= endMs || validBeforeMs - clock.now() < MIN_LEAD_MS + pauseMs
      if (!isNone(response) || isOver) return response
      await sleep(pauseMs, undefined, { ref: false })
    }
  }
}

/** An outcome, and its cost in wei if a receipt reports one. */
interface Landed {
  readonly outcome: SettleOutcome
  readonly gas?: bigint | undefined
}

/** Whether the outcome is unknown because no node returned it. */
const isOpen = (outcome: SettleOutcome): boolean =>
  outcome.status === 'pending' && outcome.message === undefined

const pendingOf = ({ transaction }: SettlementAttempt) =>
  ({ status: 'pending', transaction, reason: reasons.pending }) as const

const rejected = ({ reason, message, transient }: Refusal): Landed => ({
  outcome: { status: 'rejected', reason, message, ...(transient && { transient }) },
})

const tooLate = refuse(reasons.validBefore, 'The authorization ends too soon to be settled. Sign a new one.')

const exceeding = refuse(
  reasons.uptoExceeds,
  'The amount to charge is above the amount that the payer has authorized. Nothing was charged.',
)

const notBegun = refuseForNow(
  reasons.settleFault,
  'The settlement could not begin. Nothing was charged. Try again with the same payment.',
)

/** The operator's limits for every transaction, used when the signed bytes were deleted. */
type Highest = Pick<Required<EvmSettlerOptions>, 'maxGas' | 'maxFeePerGasWei'>

/**
 * The cost of one of a transaction's payments, in wei. On layer 2 chains it includes `l1Fee`, the cost of publishing the bytes on
 * layer 1. A cost above the signed maximum counts as impossible, because one false receipt could use up a store's daily budget. The
 * signed maximum does not cover `l1Fee`, so the limit of `l1Fee` is the transaction's gas at the operator's highest price.
 * @param bytes as signed; empty when they were deleted
 * @returns undefined when the node returns no cost or an impossible one
 */
export function costOf(
  receipt: Receipt,
  payments: number,
  bytes: string,
  { maxGas, maxFeePerGasWei }: Highest,
): bigint | undefined {
  const { gasUsed, effectiveGasPrice, l1Fee = '0x0' } = receipt as unknown as Record<string, unknown>
  const { gas, maxFeePerGas } = signedIn(bytes) ?? { gas: BigInt(maxGas), maxFeePerGas: maxFeePerGasWei }
  try {
    const [here, below] = [quantity(gasUsed) * quantity(effectiveGasPrice), quantity(l1Fee)]
    if (here > gas * maxFeePerGas || below > gas * maxFeePerGasWei) return undefined
    return (here + below + BigInt(payments) - 1n) / BigInt(payments)
  } catch {
    return undefined
  }
}

/** Cached because the payments of one transaction request the same result one after the other. */
const known = new LRUCache<string, NonNullable<ReturnType<typeof limitsOf>>>({ max: 64 })

function signedIn(bytes: string): ReturnType<typeof limitsOf> {
  let signed = known.get(bytes)
  if (signed === undefined && (signed = limitsOf(bytes)) !== undefined) known.set(bytes, signed)
  return signed
}

/**
 * The gas that a checked payment cost this installation, in wei, over all processes and keys.
 * @param receipt the receipt of the payment's own transaction, if it is mined
 * @param likelyWei estimate for a transaction without a receipt, which may still be mined and revert because another transaction
 * used the authorization
 */
export function costOfFound(
  { attempt: sendable, withheld }: Pick<TracedRecord, 'attempt' | 'withheld'>,
  outcome: SettleOutcome,
  receipt: Receipt | undefined,
  likelyWei: bigint | undefined,
  options: Pick<Required<EvmSettlerOptions>, 'maxGas' | 'maxFeePerGasWei'>,
): bigint | undefined {
  // Bytes that are withheld now may have been sent earlier.
  const attempt = sendable ?? withheld ?? null
  // This installation signed nothing, or a facilitator pays the fees.
  if (attempt === null || !hasNonce(attempt)) return 0n
  if (receipt !== undefined) {
    const payments = transfersIn(attempt.bytes).length
    // The bytes were deleted, so it is unknown how many payments share the transaction.
    if (payments === 0 && attempt.isShared) return likelyWei
    return costOf(receipt, Math.max(1, payments), attempt.bytes, options) ?? likelyWei
  }
  // The transaction was never sent, or was not mined before its authorization expired.
  const isUnsent = attempt.bytes === ''
  const isExpired = outcome.status === 'failed_final' && outcome.reason === reasons.validBefore
  return isUnsent || isExpired ? 0n : likelyWei
}

/**
 * How often a payment is checked whose transaction was mined without effect, in ms. The payment can land only if it is sent again.
 */
const SLOW_POLL_MS = 60_000

/**
 * Finds the outcome of a payment by a mined transaction of this account. The token's events decide and not the transaction's
 * status, because another sender may have moved the money with the same authorization. Never rejects.
 * @param isShared whether the transaction was to settle other payments as well
 */
export async function judgeReceipt(
  rpc: Rpc,
  receipt: Receipt,
  expected: ExpectedTransfer,
  sinceMs: number,
  isShared = false,
): Promise<Judged> {
  const settled = findTransfer(receipt, expected)
  if (settled !== undefined) return settled
  const [found] = await findAuthorizations(rpc, [{ expected, sinceMs }], Number(receipt.blockNumber))
  return outcomeOf(found!, receipt.transactionHash) ?? minedForNothing(receipt, isShared)
}

/**
 * The outcome of a transaction that was mined and did not use the authorization. It is not final, because any account can send the
 * authorization again until it expires. A call that reverts in a batch does not revert the transaction, so the outcome of a batch
 * is always reported as reverted.
 */
export function minedForNothing(
  receipt: Receipt,
  isShared = false,
): Extract<SettleOutcome, { status: 'pending' }> & { readonly recheckMs: number } {
  const isReverted = isShared || receipt.status !== '0x1'
  const what = isShared
    ? 'The transaction of several payments was mined without this one'
    : isReverted
      ? 'The transaction was mined and reverted'
      : 'The transaction succeeded, but the token moved nothing'
  return {
    status: 'pending',
    transaction: receipt.transactionHash,
    reason: isReverted ? reasons.transaction : reasons.transferEvent,
    message: `${what}. Nothing was charged so far. The authorization can be used until it expires.`,
    recheckMs: SLOW_POLL_MS,
  }
}
