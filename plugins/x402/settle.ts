import type { SettlementAttempt, StoredAnswer } from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { settlementPending } from '../../core/payments/settlementPending.ts'
import type { Claim, Exchange, PresentedPayment } from '../../core/plugin/exchange.ts'
import type { Hook, Reply } from '../../core/plugin/gateway.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Payments } from '../../core/ports/payments.ts'
import type { SettleOutcome } from '../../core/ports/settler.ts'
import { receiptHeaders } from '../../core/x402/receipt.ts'
import type { Challenges } from './challenge.ts'
import { refusal } from './pay.ts'

/**
 * The verify phase: asks the chain before the seller works. Nothing is written: whoever finds the claim after a crash
 * frees it, whether the chain had been asked or not. A payment that has settled already is being served late.
 */
export function verifyHook(): Hook {
  return async (x) => {
    if (x.settlement !== null) return
    const { payload, terms, identity, settler } = x.payment!
    const verified = await settler.verify(payload, terms, identity)
    if (!verified.ok) throw refusal(verified)
  }
}

/**
 * The settle phase. The signed bytes and the seller's answer are stored before the broadcast, so that whatever happens
 * after it, the buyer who was charged gets what was bought.
 */
export function settleHook(payments: Payments, log: Log, challenges: Challenges): Hook {
  return async (x) => {
    if (x.settlement !== null) return
    const payment = x.payment!
    const claim = x.claim!
    let notStored: unknown
    /** What the settler said it would send: known even where it breaks afterwards. */
    let sent = ''
    const store = async (attempt: SettlementAttempt) => {
      try {
        const begun = await payments.beginSettlement(claim.key, claim.owner, attempt, answerToKeep(x))
        if (begun) {
          claim.state = 'settling'
          sent = attempt.transaction
        } else notStored = notOurs()
        return begun
      } catch (error) {
        notStored = error
        throw error
      }
    }
    const { payload, terms, identity, settler } = payment
    const outcome = await settler
      .settle(payload, terms, identity, store)
      .catch((err: unknown): SettleOutcome => {
        if (claim.state !== 'settling') throw notStored ?? err
        // Signed bytes may be on their way: whatever broke here, the reconciler finds out what became of them.
        log.error({ err, purchaseId: claim.purchaseId }, 'the settler broke after the payment was stored')
        return { status: 'pending', transaction: sent, reason: 'settlement_pending' }
      })
    // Why nothing was sent is known better here than in the settler: this payment is as good as before.
    if (outcome.status === 'rejected' && notStored !== undefined) throw notStored
    return conclude(x, payment, claim, outcome, { payments, log, challenges, sent })
  }
}

/** The row is not where this call left it: another process took it for abandoned. */
const notOurs = () =>
  new TollgateError(
    'settlement_unavailable',
    'The settlement could not begin. Try again with the same payment; nothing was charged.',
    { retryAfterSeconds: 5 },
  )

interface Parts {
  readonly payments: Payments
  readonly log: Log
  readonly challenges: Challenges
  /** The transaction that was stored; empty where none was, or a remote facilitator has not named it. */
  readonly sent: string
}

async function conclude(
  x: Exchange,
  payment: PresentedPayment,
  claim: Claim,
  outcome: SettleOutcome,
  { payments, log, challenges, sent }: Parts,
): Promise<Reply | undefined> {
  const version = payment.payload.x402Version
  const { network, payer, amountAtomic } = payment.identity
  const receipt = (success: boolean, transaction: string, errorReason?: string) =>
    receiptHeaders(version, {
      success,
      transaction,
      network,
      payer,
      amount: amountAtomic.toString(),
      ...(errorReason !== undefined && { errorReason }),
    })
  const note = (to: 'pending' | 'failed_final' | 'rejected', reason: string) =>
    payments.advance(claim.key, claim.owner, 'settling', to, reason).catch((err: unknown) => {
      log.warn(
        { err, purchaseId: claim.purchaseId },
        `could not note a ${to} settlement; the reconciler will`,
      )
      return false
    })
  switch (outcome.status) {
    case 'settled':
      x.settlement = { transaction: outcome.transaction, headers: receipt(true, outcome.transaction) }
      return
    case 'pending':
      log.warn(
        { purchaseId: claim.purchaseId, transaction: outcome.transaction, reason: outcome.reason },
        'settlement pending',
      )
      await note('pending', outcome.reason)
      claim.state = 'pending'
      throw settlementPending(sentAndOpen, claim.purchaseId, outcome.transaction || sent)
    case 'failed_final':
      await note('failed_final', outcome.reason)
      claim.state = 'failed_final'
      x.errorCode = outcome.reason
      return challenges.because(version, outcome.reason, receipt(false, outcome.transaction, outcome.reason))
    case 'rejected':
      if (claim.state === 'settling') {
        // Nothing was sent although it was stored: the payment is as good as before, and the answer is not kept. Unless
        // the reconciler took it up meanwhile: then it may be on its way all the same.
        if (!(await note('rejected', outcome.reason))) {
          throw settlementPending(sentAndOpen, claim.purchaseId, sent)
        }
        claim.state = 'rejected'
      }
      if (outcome.transient) throw refusal({ ok: false, ...outcome })
      x.errorCode = outcome.reason
      return challenges.because(version, outcome.reason, receipt(false, '', outcome.reason))
  }
}

const sentAndOpen = 'The payment was sent and its outcome is not known yet.'

function answerToKeep({ answer }: Exchange): StoredAnswer | null {
  if (answer === null || answer.tunnel !== null) return null
  return { status: answer.status, headers: answer.headers, body: answer.body }
}
