import type { Asset } from '../../../core/domain/asset.ts'
import { familyOf, type NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import { TollgateError } from '../../../core/errors/error.ts'
import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import type { Egress } from '../../../core/ports/egress.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import type { Refusal, SettleOutcome, Settler, Verified } from '../../../core/ports/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { createEvmChainReader } from '../evm/chainReader.ts'
import { createEvmCheck } from '../evm/check.ts'
import { createSolanaChainReader } from '../solana/chainReader.ts'
import { checkSolanaPayment } from '../solana/checkSolanaPayment.ts'
import { createPayees, type Payees } from '../solana/payees.ts'
import { createRpc, type Rpc } from '../solana/rpc.ts'
import { solanaRules } from '../solana/solanaRules.ts'
import type { ChainReader } from './chainReader.ts'
import { createFacilitatorClient } from './facilitatorClient.ts'
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
  /** Nodes to read the chain from. Without them the facilitator's word is believed, and doubts stay open. */
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
  /** How often the whole of an open payment is looked up, in ms. Default 15,000. */
  readonly lookAgainMs?: number
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

  const supported = await askSupported(client, network, verifyTimeoutMs)
  if (!supported.ok && (supported.isAnswer || !isEvm)) {
    throw new TollgateError(
      'settlement_unavailable',
      `The facilitator for ${network} can not be used: ${supported.message}.`,
    )
  }
  if (!supported.ok)
    log.warn({ network, why: supported.message }, 'the facilitator could not say what it supports')

  const verify = async (payment: PaymentPayload, terms: PaymentRequirements): Promise<Verified> => {
    const answer = await client.post('verify', facilitatorBody(payment, terms), verifyTimeoutMs)
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
    const answer = await client.post('settle', facilitatorBody(payment, terms), settleTimeoutMs)
    const claim = readSettleAnswer(answer, identity)
    if (claim.says === 'refused') return { status: 'rejected', reason: claim.reason, message: claim.message }
    if (claim.says === 'not_sent')
      return { ...nothingSent, message: `${nothingSent.message} (${claim.message})` }
    if (claim.says === 'settled' && reader === undefined)
      return { status: 'settled', transaction: claim.transaction }
    if (claim.says === 'unclear') {
      log.warn(
        { network, payer: identity.payer, why: claim.message },
        'the facilitator left a settlement open',
      )
    }
    const { transaction } = claim
    const pending = { status: 'pending', transaction, reason: 'settlement_pending' } as const
    const leftMs = endMs - performance.now()
    if (reader === undefined || (transaction === '' && leftMs <= 0)) return pending
    const attempt = { settler: url, bytes: '', transaction, sequence: null }
    const traced = { ...identity, attempt, claimedAtMs, transaction: null }
    const proved = await (transaction === ''
      ? reader.recover(traced)
      : reader.prove(traced, Math.max(minProofMs, Math.min(proofTimeoutMs, leftMs))))
    // Nothing can be called expired or failed on the word of a transaction that somebody named.
    return proved.status === 'settled' ? proved : pending
  }

  return {
    network,
    scheme: 'exact',
    offerExtra,
    check,
    verify: (payment, terms) => verify(payment, terms),
    async settle(payment, terms, identity, store) {
      const attempt: SettlementAttempt = { settler: url, bytes: '', transaction: '', sequence: null }
      const isStored = await store(attempt).catch(() => false)
      if (!isStored) return nothingSent
      return settleOnce(payment, terms, identity, clock.now())
    },
    async recover(record) {
      if (reader === undefined) {
        const transaction = record.attempt?.transaction ?? ''
        log.warn(
          { network, payer: record.payer },
          'a settlement stays open: without rpcUrls the chain can not be read',
        )
        return { status: 'pending', transaction, reason: 'settlement_pending' }
      }
      return reader.recover(record)
    },
    ...(payees !== undefined && { payee: payees.payee }),
    stillOnChain: async (record) => reader?.stillOnChain(record) ?? 'unknown',
    async start() {},
    async diagnose() {
      const now = await askSupported(client, network, verifyTimeoutMs)
      const words = now.ok ? [] : [`${network}: the facilitator can not be used: ${now.message}.`]
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

/** For one look at the chain by a node that is far away. */
const minProofMs = 1_000

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
  return createRpc({ urls: rpcUrls, genesis, timeoutMs: 10_000, clock, log })
}

/** Who of the sellers can be paid is read from the chain. */
const solanaPayees = (options: RemoteSettlerOptions, rpc: Rpc): Payees =>
  createPayees({ rpc, rules: solanaRules({ ...options, feePayers: [] }), log: options.log ?? silentLog })

function readerFor(options: RemoteSettlerOptions, solana: Rpc | undefined): ChainReader | undefined {
  const {
    rpcUrls = [],
    network,
    confirmations = 1,
    firstPollMs = 20,
    pollMs = 1_000,
    lookAgainMs = 15_000,
    clock,
    log,
  } = options
  if (rpcUrls.length === 0) return undefined
  const common = {
    network,
    pollMs,
    ...(clock !== undefined && { clock }),
    ...(log !== undefined && { log }),
  }
  if (solana !== undefined) return createSolanaChainReader({ ...common, lookAgainMs, rpc: solana })
  return createEvmChainReader({ ...common, rpcUrls, confirmations, firstPollMs, lookAgainMs })
}
