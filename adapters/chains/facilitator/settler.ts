import { LRUCache } from 'lru-cache'
import type { Asset } from '../../../core/domain/asset.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../../core/domain/payment.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { addressForm } from '../../../core/evm/hex.ts'
import { approvalCall } from '../../../core/evm/permit2.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../core/ports/chains/settler.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import type { Egress } from '../../../core/ports/egress.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import { allowanceRequired, type PaymentPayload, type PaymentRequirements } from '../../../core/x402/types.ts'
import { type BudgetLimits, Budgets } from '../budgets.ts'
import { createEvmCheck } from '../evm/check/payment.ts'
import { Digests, paymentWithTokensV } from '../evm/check/signedPayment.ts'
import { createEvmChainReader } from '../evm/prove/recovery.ts'
import { createEvmRpc } from '../evm/rpc/nodes.ts'
import { admissionRefusals, sumInFlight } from '../refusals.ts'
import { createPayees, type Payees } from '../solana/check/payees.ts'
import { checkSolanaPayment } from '../solana/check/payment.ts'
import { solanaRules } from '../solana/check/rules.ts'
import { createSolanaChainReader } from '../solana/prove/chainReader.ts'
import { createSolanaRpc, type Rpc } from '../solana/rpc/nodes.ts'
import type { ChainReader, TracedPayment } from './chainReader.ts'
import {
  createFacilitatorClient,
  facilitatorBody,
  readSettleResponse,
  requestSupported,
} from './facilitatorClient.ts'
import { evmBalance, solanaBalance } from './payerBalance.ts'

export interface RemoteSettlerOptions {
  /** Base URL of the facilitator. */
  readonly url: string
  readonly network: NetworkId
  readonly assets: readonly Asset[]
  readonly egress: Egress
  /** Headers of every request to the facilitator. Their values are secrets and never logged. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Nodes that the gateway reads the chain from, because only the chain proves the outcome of a payment. Without nodes, the gateway
   * trusts the facilitator's report that a payment settled or that the payment's form is refused. Unclear outcomes then stay open.
   */
  readonly rpcUrls?: readonly string[]
  readonly confirmations?: number
  /** Highest fee of a payment on Solana. The facilitator's own limits may be lower, and payments above them fail there. */
  readonly maxComputeUnits?: number
  readonly maxMicroLamportsPerUnit?: number
  /** Replaces the built-in local check. */
  readonly check?: Settler['check']
  /** Replaces the built-in chain reader. */
  readonly chain?: ChainReader
  /** Timeout of /verify and /supported, in ms. Default 10,000. */
  readonly verifyTimeoutMs?: number
  /** Timeout of a settlement, in ms. It covers the proof and /settle, which waits for the chain. Default 60,000. */
  readonly settleTimeoutMs?: number
  /**
   * How long the chain may take to show a payment that the facilitator reports as settled, in ms. Default 20,000, limited by
   * `settleTimeoutMs`. Even after a slow /settle there is time for one read.
   */
  readonly proofTimeoutMs?: number
  /** Shortest and longest time between two reads of the chain, in ms. Default 20 and 1,000. */
  readonly firstPollMs?: number
  readonly pollMs?: number
  /** Maximum number of payments in flight of one payer, and of all payers. Default 100 and 1,024. */
  readonly maxInFlightPerPayer?: number
  readonly maxInFlight?: number
  /**
   * Failures that a payer may cause per window. A payment in flight counts as a failure until it has settled. Default 100 per
   * 600,000 ms.
   */
  readonly failureBudget?: BudgetLimits['failureBudget']
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * Creates the settler that uses the x402 facilitator at a URL. It requests /supported once, because offers on Solana need a field
 * of the response (`feePayer`).
 *
 * @throws {TollgateError} `settlement_unavailable` when the facilitator does not settle on this network, or does not return a field
 * that the offers need
 */
export async function createRemoteSettler(options: RemoteSettlerOptions): Promise<Settler> {
  const { url, network, egress, headers = {}, clock = systemClock, log = silentLog } = options
  const { verifyTimeoutMs = 10_000, settleTimeoutMs = 60_000, proofTimeoutMs = 20_000 } = options
  const isEvm = familyOf(network) === 'eip155'
  const client = createFacilitatorClient({ url, headers, egress })
  const { host } = new URL(url)
  // The facilitator pays the gas, but the budgets prevent sellers from working for payments that cannot all be settled.
  const budgets = new Budgets({
    network,
    clock,
    log,
    maxInFlight: options.maxInFlight ?? 1_024,
    maxInFlightPerPayer: options.maxInFlightPerPayer ?? 100,
    failureBudget: options.failureBudget ?? { failures: 100, windowMs: 600_000 },
    maxGasPerStoreAndDay: null,
  })

  const supported = await requestSupported(client, network, verifyTimeoutMs)
  if (!supported.ok && (supported.isResponse || !isEvm)) {
    throw new TollgateError(
      'settlement_unavailable',
      `The facilitator of ${network} at ${host} can't be used: ${supported.message}.`,
    )
  }
  if (!supported.ok)
    log.warn({ network, host, why: supported.message }, 'the facilitator did not return what it supports')

  const sponsorsAllowance = supported.ok && supported.sponsorsAllowance
  const digests = isEvm ? new Digests(network, options.assets) : undefined
  // Public facilitators pass `v` to the token unchanged, but the token refuses 0 and 1.
  const bodyOf = (payment: PaymentPayload, terms: PaymentRequirements, mostAtomic?: bigint): object => {
    const { allowancePermit, ...plain } = payment
    const sent = sponsorsAllowance ? payment : plain
    return facilitatorBody(
      digests === undefined ? sent : paymentWithTokensV(sent, terms.asset, digests),
      terms,
      mostAtomic?.toString(),
    )
  }
  const verify = async (
    payment: PaymentPayload,
    terms: PaymentRequirements,
  ): Promise<{ readonly ok: true } | Refusal> => {
    const response = await client.post('verify', bodyOf(payment, terms), verifyTimeoutMs)
    if (response.arrived !== 'answered' || response.status >= 500) return unavailable
    const { isValid, invalidReason } = response.body
    if (isValid === true && response.status < 300) return { ok: true }
    if (isValid !== false) return unavailable
    const isPlain = typeof invalidReason === 'string' && /^[a-z0-9_]{1,100}$/.test(invalidReason)
    const reason = isPlain ? invalidReason : 'invalid_payment'
    return {
      ok: false,
      reason,
      message: `The facilitator refuses the payment: ${reason}.`,
      ...(reason === allowanceRequired && { extra: { approval: approvalCall(terms.asset) } }),
    }
  }

  const offerExtra = supported.ok ? offerable(supported.extra) : {}
  const uptoExtra = isEvm && supported.ok ? offerableUpto(supported.uptoExtra) : undefined
  const extraFor = (scheme: string) => (scheme === 'upto' && uptoExtra !== undefined ? uptoExtra : offerExtra)
  const check = options.check ?? (isEvm ? evmCheck() : solanaCheck(options, offerExtra['feePayer']))
  const evm = isEvm ? evmRpc(options) : undefined
  const solana = isEvm ? undefined : solanaRpc(options)
  const payees = solana && solanaPayees(options, solana)
  const reader = options.chain ?? readerFor(options, evm, solana)
  const feePayers = offerExtra['feePayer'] === undefined ? [] : [offerExtra['feePayer']]
  const balanceOf = isEvm
    ? evm && evmBalance(evm)
    : solana && solanaBalance(solana, solanaRules({ ...options, feePayers }))

  function evmCheck(): Settler['check'] {
    return createEvmCheck({
      network,
      assets: options.assets,
      clock,
      facilitators: new Set(uptoExtra && [uptoExtra.facilitatorAddress.toLowerCase()]),
      // This process cannot check signatures of contract wallets, so the facilitator checks them.
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
    const response = await client.post(
      'settle',
      bodyOf(payment, terms, identity.amountAtomic),
      settleTimeoutMs,
    )
    const claim = readSettleResponse(response, identity)
    const tracedBy = (transaction: string): TracedPayment => ({
      ...identity,
      chargedAtomic: BigInt(terms.amount),
      claimedAtMs,
      transaction: null,
      attempt: { settler: url, bytes: '', transaction, sequence: null },
    })
    const recoverOutcome = async (): Promise<SettleOutcome> => (await reader!.recover([tracedBy('')]))[0]!
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
        chargedAtomic: BigInt(terms.amount),
      }
    if (claim.says === 'unclear' || claim.says === 'refused') {
      log.warn(
        { network, payer: identity.payer, why: claim.message },
        'the facilitator left a settlement open',
      )
    }
    // A refusal does not free a payment that the facilitator has verified, because the facilitator may have broadcast the payment
    // before. Its proxy may also have sent the request twice. The chain shows the outcome, at the latest when the authorization
    // expires.
    const transaction = claim.says === 'refused' ? '' : claim.transaction
    const pending = { status: 'pending', transaction, reason: 'settlement_pending' } as const
    const leftMs = endMs - performance.now()
    if (reader === undefined || (transaction === '' && leftMs <= 0)) return pending
    const proved = await (transaction === ''
      ? recoverOutcome()
      : reader.prove(tracedBy(transaction), Math.max(MIN_PROOF_MS, Math.min(proofTimeoutMs, leftMs))))
    // A transaction that only the facilitator named cannot prove that the payment expired or failed.
    return proved.status === 'settled' ? proved : pending
  }

  /** Rows whose settlement is being requested again. */
  const verifiedAgain = new Set<number>()

  /**
   * How often this process requested each settlement again, by purchase. For a payment of another process, the count starts at one.
   */
  const timesVerified = new LRUCache<string, number>({ max: MAX_KNOWN })
  const timesOf = ({ purchaseId, tries }: PaymentRecord): number =>
    timesVerified.get(purchaseId) ?? (tries > 1 ? 1 : 0)

  const mayVerifyAgain = (record: PaymentRecord): boolean => {
    const { row, tries, attempt, claimedAtMs, validBeforeMs } = record
    const afterMs = VERIFY_AGAIN_AFTER_MS[timesOf(record)]
    return (
      attempt?.settler === url &&
      tries > 0 &&
      afterMs !== undefined &&
      clock.now() - claimedAtMs >= afterMs &&
      !verifiedAgain.has(row) &&
      verifiedAgain.size < MAX_VERIFIED_AGAIN &&
      clock.now() + MIN_LEFT_MS < validBeforeMs
    )
  }

  /**
   * Requests a settlement again if the chain has no trace of it, because the first request may never have arrived. The second
   * request cannot charge twice, because the chain accepts an authorization (or a Solana message) once. The function does not wait
   * for the response, because the chain decides the outcome.
   */
  const settleAgain = (record: PaymentRecord): void => {
    const payment = paymentOf(record)
    const asset = options.assets.find((one) => one.network === network && one.address === record.asset)
    if (payment === undefined || asset === undefined) return
    const terms: PaymentRequirements = {
      scheme: record.scheme,
      network,
      asset: asset.address,
      payTo: record.payTo,
      amount: (record.chargedAtomic ?? record.amountAtomic).toString(),
      maxTimeoutSeconds: Math.ceil((record.validBeforeMs - record.claimedAtMs) / 1_000),
      extra: {
        ...asset.eip712,
        decimals: asset.decimals,
        ...(asset.transferMethod !== undefined && { assetTransferMethod: asset.transferMethod }),
        ...extraFor(record.scheme),
      },
    }
    verifiedAgain.add(record.row)
    timesVerified.set(record.purchaseId, timesOf(record) + 1)
    log.info(
      { network, purchaseId: record.purchaseId },
      'a settlement is requested from the facilitator again',
    )
    void client
      .post('settle', bodyOf(payment, terms, record.amountAtomic), settleTimeoutMs)
      .finally(() => verifiedAgain.delete(record.row))
  }

  return {
    id: url,
    network,
    schemes: uptoExtra === undefined ? ['exact'] : ['exact', 'upto'],
    sponsorsAllowance,
    offerExtra: (_payTo, scheme) => extraFor(scheme),
    check,
    async verify(payment, terms, identity, { storeId }) {
      const flight = budgets.take(identity, storeId)
      if (typeof flight === 'string') return admissionRefusals[flight]
      try {
        const [verified, balance] = await Promise.all([
          verify(payment, terms),
          flight.aheadAtomic === 0n ? undefined : balanceOf?.(payment, terms, identity),
        ])
        const isTooMuch = balance !== undefined && balance < flight.aheadAtomic + identity.amountAtomic
        const why = verified.ok && !isTooMuch ? flight.reserve(0n) : 'refused'
        if (why === undefined) return { ok: true, hold: flight }
        flight.release()
        if (why !== 'refused') return admissionRefusals[why]
        return verified.ok ? sumInFlight : verified
      } catch {
        flight.release()
        return unavailable
      }
    },
    async settle(payment, terms, identity, store, hold) {
      const flight = budgets.of(hold) ?? budgets.take(identity, '')
      if (typeof flight === 'string') return { ...admissionRefusals[flight], status: 'rejected' }
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
          'settlements stay open: without rpcUrls the chain cannot be read',
        )
        return records.map(({ attempt }) => ({
          status: 'pending',
          transaction: attempt?.transaction ?? '',
          reason: 'settlement_pending',
        }))
      }
      const outcomes = await reader.recover(records)
      for (const [i, record] of records.entries()) {
        const outcome = outcomes[i]!
        budgets.found(record, outcome)
        if (outcome.status === 'pending' && outcome.isUnused && mayVerifyAgain(record)) {
          settleAgain(record)
          outcomes[i] = { ...outcome, recheckMs: VERIFIED_AGAIN_MS }
        }
      }
      return outcomes
    },
    booked: (record, outcome) => budgets.booked(record, outcome),
    overtaken: (payment, outcome) => budgets.overtaken(payment, outcome),
    forgetConcluded: (concludedOf) => budgets.forgetConcluded(concludedOf),
    ...(payees !== undefined && { payee: payees.payee }),
    stillOnChain: async (records) => reader?.stillOnChain(records) ?? records.map(() => 'unknown'),
    async start() {},
    async diagnose() {
      const now = await requestSupported(client, network, verifyTimeoutMs)
      const words = now.ok ? [] : [`${network}: the facilitator at ${host} can't be used: ${now.message}.`]
      if (reader === undefined) {
        words.push(
          `${network}: without rpcUrls the gateway cannot check settlements, and a settlement with an unknown outcome stays open forever.`,
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
 * When an open payment's settlement is requested again, in ms since its claim. The first such request follows the second read of
 * the chain that finds nothing. The next ones follow half a minute and a minute after the claim, however often the buyer checks.
 * There are no more, because a facilitator that has the payment in flight would pay for a second broadcast that reverts.
 */
const VERIFY_AGAIN_AFTER_MS: readonly number[] = [0, 30_000, 60_000]
/** Maximum number of payments whose repeated requests this process counts. */
const MAX_KNOWN = 10_000
const MAX_VERIFIED_AGAIN = 16
/** Shortest time until a payment expires, in ms. A payment that expires sooner is refused. */
const MIN_LEFT_MS = 6_000
const VERIFIED_AGAIN_MS = 2_000

/** The stored payment. Undefined if it cannot be read, because another program wrote the row. */
function paymentOf({ payload }: PaymentRecord): PaymentPayload | undefined {
  try {
    return JSON.parse(payload)
  } catch {
    return undefined
  }
}

/** Time for one read of the chain by a distant node, in ms. */
const MIN_PROOF_MS = 1_000

const unavailable: Refusal = {
  ok: false,
  reason: 'unexpected_verify_error',
  message: 'The facilitator cannot be reached now. Nothing was charged. Try again with the same payment.',
  transient: true,
}

const nothingSent = {
  status: 'rejected',
  reason: 'unexpected_settle_error',
  message: 'The settlement could not begin. Nothing was charged. Try again with the same payment.',
  transient: true,
} as const

/** Fields of /supported that an offer may contain. The facilitator must not set other fields. */
function offerable(extra: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const feePayer = Object.hasOwn(extra, 'feePayer') ? extra['feePayer'] : undefined
  return typeof feePayer === 'string' ? { feePayer } : {}
}

/** The fields of offers by `upto`. Undefined if the facilitator does not settle the scheme, or names no address that settles. */
function offerableUpto(extra: Readonly<Record<string, unknown>> | undefined) {
  const facilitatorAddress = extra?.['facilitatorAddress']
  if (typeof facilitatorAddress !== 'string' || !addressForm.test(facilitatorAddress)) return undefined
  return { assetTransferMethod: 'permit2', facilitatorAddress }
}

/** Checks that a payment names the facilitator's fee payer and no other. */
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

function evmRpc({ network, rpcUrls: urls = [], clock = systemClock, log = silentLog }: RemoteSettlerOptions) {
  return urls.length === 0 ? undefined : createEvmRpc({ urls, network, timeoutMs: 10_000, clock, log })
}

function solanaRpc({ network, rpcUrls = [], clock = systemClock, log = silentLog }: RemoteSettlerOptions) {
  if (rpcUrls.length === 0) return undefined
  const genesis = network.slice('solana:'.length)
  return createSolanaRpc({ urls: rpcUrls, genesis, timeoutMs: 10_000, clock, log })
}

/** Reads from the chain whether sellers can be paid. */
const solanaPayees = (options: RemoteSettlerOptions, rpc: Rpc): Payees =>
  createPayees({ rpc, rules: solanaRules({ ...options, feePayers: [] }), log: options.log ?? silentLog })

function readerFor(
  options: RemoteSettlerOptions,
  evm: ReturnType<typeof evmRpc>,
  solana: Rpc | undefined,
): ChainReader | undefined {
  const { network, confirmations = 1, firstPollMs = 20, pollMs = 1_000 } = options
  const { clock = systemClock, log = silentLog } = options
  if (solana !== undefined) return createSolanaChainReader({ network, pollMs, clock, log, rpc: solana })
  return evm && createEvmChainReader({ network, rpc: evm, confirmations, firstPollMs, pollMs, clock, log })
}
