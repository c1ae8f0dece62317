import { LRUCache } from 'lru-cache'
import type { Asset } from '../../../core/domain/asset.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../../core/domain/payment.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../core/ports/chains/settler.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import type { Egress } from '../../../core/ports/egress.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { type BudgetLimits, createBudgets } from '../budgets.ts'
import { createEvmCheck } from '../evm/check/check.ts'
import { paymentWithTokensV, separatorsOf } from '../evm/check/plainSignature.ts'
import { createEvmChainReader } from '../evm/prove/chainReader.ts'
import { createFinds } from '../finds.ts'
import { noPlaceRefusals, sumInFlight } from '../refuse.ts'
import { checkSolanaPayment } from '../solana/check/checkSolanaPayment.ts'
import { createPayees, type Payees } from '../solana/check/payees.ts'
import { solanaRules } from '../solana/check/solanaRules.ts'
import { createSolanaChainReader } from '../solana/prove/chainReader.ts'
import { createSolanaRpc, type Rpc } from '../solana/rpc/createSolanaRpc.ts'
import type { ChainReader, TracedPayment } from './chainReader.ts'
import { createFacilitatorClient } from './facilitatorClient.ts'
import { evmBalance, solanaBalance } from './payerBalance.ts'
import { readSettleAnswer } from './settleAnswer.ts'
import { askSupported } from './supportedKind.ts'
import { facilitatorBody } from './wire.ts'

export interface RemoteSettlerOptions {
  /** Base URL of the facilitator. */
  readonly url: string
  readonly network: NetworkId
  readonly assets: readonly Asset[]
  readonly egress: Egress
  /** Sent with every request to it; values are secrets and never logged. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Nodes to read the chain from: they alone say what became of a payment. Without them the facilitator's word is believed,
   * that it settled or that it refused the payment's form, and doubts stay open.
   */
  readonly rpcUrls?: readonly string[]
  readonly confirmations?: number
  /** Caps of a payment's fee on Solana; the facilitator has its own, and a payment above them fails there. */
  readonly maxComputeUnits?: number
  readonly maxMicroLamportsPerUnit?: number
  /** The local check, where the built-in one does not fit. */
  readonly check?: Settler['check']
  /** How the chain is read, where the built-in one does not fit. */
  readonly chain?: ChainReader
  /** Limit of /verify and /supported, in ms. Default 10,000. */
  readonly verifyTimeoutMs?: number
  /** Limit of a settlement: /settle, which waits for the chain, and the proof of it. In ms, default 60,000. */
  readonly settleTimeoutMs?: number
  /**
   * How long the chain may take to show what the facilitator says is settled, in ms. Default 20,000, within
   * `settleTimeoutMs`; the time for one look is always given.
   */
  readonly proofTimeoutMs?: number
  /** Least and most time between two looks at the chain, in ms. Default 20 and 1,000. */
  readonly firstPollMs?: number
  readonly pollMs?: number
  /** Payments of one payer on their way at once, and of all. Default 100 and 1,024. */
  readonly maxInFlightPerPayer?: number
  readonly maxInFlight?: number
  /** Failures that one payer may cause in any window; a payment on its way counts as one. Default 100 in 600,000 ms. */
  readonly failureBudget?: BudgetLimits['failureBudget']
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Makes the settler that speaks to an x402 facilitator by URL. It asks /supported once: the answer holds what offers on
 * Solana need (`feePayer`).
 *
 * @throws {TollgateError} `settlement_unavailable` when the facilitator does not settle on this network, or when what
 *   the offers need can't be had from it
 */
export async function createRemoteSettler(options: RemoteSettlerOptions): Promise<Settler> {
  const { url, network, egress, headers = {}, clock = systemClock, log = silentLog } = options
  const { verifyTimeoutMs = 10_000, settleTimeoutMs = 60_000, proofTimeoutMs = 20_000 } = options
  const isEvm = familyOf(network) === 'eip155'
  const client = createFacilitatorClient({ url, headers, egress })
  const { host } = new URL(url)
  // Gas is the facilitator's affair; that sellers don't work for payments that can't all be settled is ours.
  const budgets = createBudgets({
    network,
    clock,
    log,
    maxInFlight: options.maxInFlight ?? 1_024,
    maxInFlightPerPayer: options.maxInFlightPerPayer ?? 100,
    failureBudget: options.failureBudget ?? { failures: 100, windowMs: 600_000 },
    maxGasPerStoreAndDay: null,
  })
  const finds = createFinds(budgets)

  const supported = await askSupported(client, network, verifyTimeoutMs)
  if (!supported.ok && (supported.isAnswer || !isEvm)) {
    throw new TollgateError(
      'settlement_unavailable',
      `The facilitator of ${network} at ${host} can't be used: ${supported.message}.`,
    )
  }
  if (!supported.ok)
    log.warn({ network, host, why: supported.message }, 'the facilitator could not say what it supports')

  const separators = isEvm ? separatorsOf(network, options.assets) : undefined
  // The public facilitators hand v to the token as it came, and the token refuses 0 and 1.
  const bodyOf = (payment: PaymentPayload, terms: PaymentRequirements): object =>
    facilitatorBody(
      separators === undefined ? payment : paymentWithTokensV(payment, terms.asset, separators),
      terms,
    )
  const verify = async (
    payment: PaymentPayload,
    terms: PaymentRequirements,
  ): Promise<{ readonly ok: true } | Refusal> => {
    const answer = await client.post('verify', bodyOf(payment, terms), verifyTimeoutMs)
    if (answer.arrived !== 'answered' || answer.status >= 500) return unavailable
    const { isValid, invalidReason } = answer.body
    if (isValid === true && answer.status < 300) return { ok: true }
    if (isValid !== false) return unavailable
    const isPlain = typeof invalidReason === 'string' && /^[a-z0-9_]{1,100}$/.test(invalidReason)
    const reason = isPlain ? invalidReason : 'invalid_payment'
    return { ok: false, reason, message: `The facilitator refuses the payment: ${reason}.` }
  }

  const offerExtra = supported.ok ? offerable(supported.extra) : {}
  const check = options.check ?? (isEvm ? evmCheck() : solanaCheck(options, offerExtra['feePayer']))
  const solana = isEvm ? undefined : solanaRpc(options)
  const payees = solana && solanaPayees(options, solana)
  const reader = options.chain ?? readerFor(options, solana)
  const feePayers = offerExtra['feePayer'] === undefined ? [] : [offerExtra['feePayer']]
  const balanceOf = isEvm
    ? evmBalance(options)
    : solana && solanaBalance(solana, solanaRules({ ...options, feePayers }))

  function evmCheck(): Settler['check'] {
    return createEvmCheck({
      network,
      assets: options.assets,
      clock,
      // What no key in this process can judge, the facilitator judges: contract wallets.
      contractSignature: async (_authorization, _digest, payment, terms) => {
        const verified = await verify(payment, terms)
        return verified.ok ? undefined : verified
      },
    })
  }

  const settleOnce = async (
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
    claimedAtMs: number,
  ): Promise<SettleOutcome> => {
    const endMs = performance.now() + settleTimeoutMs
    const answer = await client.post('settle', bodyOf(payment, terms), settleTimeoutMs)
    const claim = readSettleAnswer(answer, identity)
    const tracedBy = (transaction: string): TracedPayment => ({
      ...{ ...identity, claimedAtMs, transaction: null },
      attempt: { settler: url, bytes: '', transaction, sequence: null },
    })
    const lookUp = async (): Promise<SettleOutcome> => (await reader!.recover([tracedBy('')]))[0]!
    if (claim.says === 'refused' && reader === undefined)
      return { status: 'rejected', reason: claim.reason, message: claim.message }
    if (claim.says === 'not_sent')
      return { ...nothingSent, message: `${nothingSent.message} (${claim.message})` }
    if (claim.says === 'settled' && reader === undefined)
      return {
        status: 'settled',
        transaction: claim.transaction,
        event: `nonce:${identity.nonce}`,
        block: null,
        chargedAtomic: identity.amountAtomic,
      }
    if (claim.says === 'unclear' || claim.says === 'refused') {
      log.warn(
        { network, payer: identity.payer, why: claim.message },
        'the facilitator left a settlement open',
      )
    }
    // One that refuses may have broadcast before, or its proxy has asked it twice: it had called the payment good, so that a
    // refusal is nothing to free a payment by. The chain knows, at the latest when the authorization expires.
    const transaction = claim.says === 'refused' ? '' : claim.transaction
    const pending = { status: 'pending', transaction, reason: 'settlement_pending' } as const
    const leftMs = endMs - performance.now()
    if (reader === undefined || (transaction === '' && leftMs <= 0)) return pending
    const proved = await (transaction === ''
      ? lookUp()
      : reader.prove(tracedBy(transaction), Math.max(MIN_PROOF_MS, Math.min(proofTimeoutMs, leftMs))))
    // Nothing can be called expired or failed on the word of a transaction that somebody named.
    return proved.status === 'settled' ? proved : pending
  }

  /** Rows that are being asked for once more. */
  const askedAgain = new Set<number>()

  /** How often each was asked for once more, by purchase. What another process had in hand counts as asked for once. */
  const timesAsked = new LRUCache<string, number>({ max: MAX_KNOWN })
  const timesOf = ({ purchaseId, tries }: PaymentRecord): number =>
    timesAsked.get(purchaseId) ?? (tries > 1 ? 1 : 0)

  const mayAskAgain = (record: PaymentRecord): boolean => {
    const { row, tries, attempt, claimedAtMs, validBeforeMs } = record
    const afterMs = ASK_AGAIN_AFTER_MS[timesOf(record)]
    return (
      attempt?.settler === url &&
      tries > 0 &&
      afterMs !== undefined &&
      clock.now() - claimedAtMs >= afterMs &&
      !askedAgain.has(row) &&
      askedAgain.size < MOST_ASKED_AGAIN &&
      clock.now() + LEAST_LEFT_MS < validBeforeMs
    )
  }

  /**
   * Asks for a settlement that the chain has nothing of: the first request may never have arrived. It can't charge twice: the
   * chain takes an authorization, or a message, once. The answer says nothing that the chain does not; nobody waits for it.
   */
  const settleAgain = (record: PaymentRecord): void => {
    const payment = paymentOf(record)
    const asset = options.assets.find((one) => one.network === network && one.address === record.asset)
    if (payment === undefined || asset === undefined) return
    const terms: PaymentRequirements = {
      ...{ scheme: record.scheme, network, asset: asset.address, payTo: record.payTo },
      amount: record.amountAtomic.toString(),
      maxTimeoutSeconds: Math.ceil((record.validBeforeMs - record.claimedAtMs) / 1_000),
      extra: { ...asset.eip712, decimals: asset.decimals, ...offerExtra },
    }
    askedAgain.add(record.row)
    timesAsked.set(record.purchaseId, timesOf(record) + 1)
    log.info(
      { network, purchaseId: record.purchaseId },
      'the facilitator is asked for a settlement once more',
    )
    void client
      .post('settle', bodyOf(payment, terms), settleTimeoutMs)
      .finally(() => askedAgain.delete(record.row))
  }

  return {
    id: url,
    network,
    scheme: 'exact',
    offerExtra: () => offerExtra,
    check,
    async verify(payment, terms, identity, { storeId }) {
      const flight = budgets.take(identity, storeId)
      if (typeof flight === 'string') return noPlaceRefusals[flight]
      try {
        const [verified, balance] = await Promise.all([
          verify(payment, terms),
          flight.aheadAtomic === 0n ? undefined : balanceOf?.(payment, terms, identity),
        ])
        const isTooMuch = balance !== undefined && balance < flight.aheadAtomic + identity.amountAtomic
        const why = verified.ok && !isTooMuch ? flight.reserve(0n) : 'refused'
        if (why === undefined) return { ok: true, hold: flight }
        flight.release()
        if (why !== 'refused') return noPlaceRefusals[why]
        return verified.ok ? sumInFlight : verified
      } catch {
        flight.release()
        return unavailable
      }
    },
    async settle(payment, terms, identity, store, hold) {
      const flight = budgets.of(hold) ?? budgets.take(identity, '')
      if (typeof flight === 'string') return { ...noPlaceRefusals[flight], status: 'rejected' }
      if (!flight.begin()) return nothingSent
      let outcome: SettleOutcome = nothingSent
      try {
        const attempt: SettlementAttempt = { settler: url, bytes: '', transaction: '', sequence: null }
        const isStored = await store(attempt).catch(() => false)
        if (isStored) outcome = await settleOnce(payment, terms, identity, clock.now())
        return outcome
      } finally {
        flight.end(outcome)
      }
    },
    async recover(records) {
      if (reader === undefined) {
        log.warn(
          { network, open: records.length },
          'settlements stay open: without rpcUrls the chain can not be read',
        )
        return records.map(({ attempt }) => ({
          ...{ status: 'pending', transaction: attempt?.transaction ?? '', reason: 'settlement_pending' },
        }))
      }
      const outcomes = await reader.recover(records)
      for (const [i, record] of records.entries()) {
        const outcome = outcomes[i]!
        finds.add(record, outcome)
        if (outcome.status === 'pending' && outcome.isUnused && mayAskAgain(record)) {
          settleAgain(record)
          outcomes[i] = { ...outcome, lookAgainMs: ASKED_AGAIN_MS }
        }
      }
      return outcomes
    },
    booked: finds.booked,
    overtaken: budgets.overtaken,
    forgetConcluded: budgets.forgetConcluded,
    ...(payees !== undefined && { payee: payees.payee }),
    stillOnChain: async (records) => reader?.stillOnChain(records) ?? records.map(() => 'unknown'),
    async start() {},
    async diagnose() {
      const now = await askSupported(client, network, verifyTimeoutMs)
      const words = now.ok ? [] : [`${network}: the facilitator at ${host} can't be used: ${now.message}.`]
      if (reader === undefined) {
        words.push(
          `${network}: without rpcUrls nothing can be proved, and an unclear settlement stays open for good.`,
        )
      }
      return words
    },
    async close() {
      reader?.close()
      payees?.close()
    },
  }
}

/**
 * When an open payment's settlement is asked for once more, in ms after its claim: at the second look that finds nothing of
 * it, then after half a minute and a minute, however often a buyer who comes back has it looked up. A facilitator that has it
 * in hand pays for a second broadcast that reverts, so it is not asked more often.
 */
const ASK_AGAIN_AFTER_MS: readonly number[] = [0, 30_000, 60_000]
/** Payments of which it is known how often they were asked for. */
const MAX_KNOWN = 10_000
const MOST_ASKED_AGAIN = 16
/** What ends sooner is refused. */
const LEAST_LEFT_MS = 6_000
const ASKED_AGAIN_MS = 2_000

/** The stored payment; undefined when it can't be read, which only a foreign row can have. */
function paymentOf({ payload }: PaymentRecord): PaymentPayload | undefined {
  try {
    return JSON.parse(payload)
  } catch {
    return undefined
  }
}

/** For one look at the chain by a node that is far away. */
const MIN_PROOF_MS = 1_000

const unavailable: Refusal = {
  ok: false,
  reason: 'unexpected_verify_error',
  message: 'The facilitator can not be asked now. Try again with the same payment; nothing was charged.',
  transient: true,
}

const nothingSent = {
  status: 'rejected',
  reason: 'unexpected_settle_error',
  message: 'The settlement could not begin. Try again with the same payment; nothing was charged.',
  transient: true,
} as const

/** Fields of /supported that belong in an offer; a facilitator does not get to write the rest of it. */
function offerable(extra: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const feePayer = Object.hasOwn(extra, 'feePayer') ? extra['feePayer'] : undefined
  return typeof feePayer === 'string' ? { feePayer } : {}
}

/** The facilitator's fee payer is the only one that a payment may name. */
function solanaCheck(options: RemoteSettlerOptions, feePayer: string | undefined): Settler['check'] {
  if (feePayer === undefined) {
    const message = `The facilitator for ${options.network} names no fee payer, and Solana needs one.`
    throw new TollgateError('settlement_unavailable', message)
  }
  const rules = solanaRules({ ...options, feePayers: [feePayer] })
  return (payment, terms) => {
    const checked = checkSolanaPayment(payment, terms, rules)
    return checked.ok ? { ok: true, identity: checked.identity } : checked
  }
}

function solanaRpc({ network, rpcUrls = [], clock = systemClock, log = silentLog }: RemoteSettlerOptions) {
  if (rpcUrls.length === 0) return undefined
  const genesis = network.slice('solana:'.length)
  return createSolanaRpc({ urls: rpcUrls, genesis, timeoutMs: 10_000, clock, log })
}

/** Who of the sellers can be paid is read from the chain. */
const solanaPayees = (options: RemoteSettlerOptions, rpc: Rpc): Payees =>
  createPayees({ rpc, rules: solanaRules({ ...options, feePayers: [] }), log: options.log ?? silentLog })

function readerFor(options: RemoteSettlerOptions, solana: Rpc | undefined): ChainReader | undefined {
  const { rpcUrls = [], network, confirmations = 1, firstPollMs = 20, pollMs = 1_000, clock, log } = options
  if (rpcUrls.length === 0) return undefined
  const common = {
    network,
    pollMs,
    ...(clock !== undefined && { clock }),
    ...(log !== undefined && { log }),
  }
  if (solana !== undefined) return createSolanaChainReader({ ...common, rpc: solana })
  return createEvmChainReader({ ...common, rpcUrls, confirmations, firstPollMs })
}
