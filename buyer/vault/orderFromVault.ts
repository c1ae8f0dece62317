import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { formatAmount } from '../../core/domain/money.ts'
import { decodeHeader } from '../../core/x402/header.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { isObject, own } from '../../core/x402/strictJson.ts'
import type { ChannelOrder, Order } from '../buyer.ts'
import { HttpFailure } from '../httpCall.ts'
import { type CallVault, codeOf, refusalOf, VaultRefusal, type VaultResponse } from './vaultClient.ts'

/** How long one request waits for the owner, in seconds. This is the vault's own default. */
const WAIT_SECONDS = 25
/** How long requests to an unavailable vault are retried while no approval is open, in ms. */
const PATIENCE_MS = 20_000
const DEFAULT_PAUSE_MS = 1_000
/** Maximum lifetime of an approval, in ms. A later expiry that the vault names is reduced to it. */
const MAX_QUESTION_MS = 3_600_000

/**
 * Codes after which the same request may be sent again with the same key, because nothing was done or the request joins an open
 * approval.
 */
const passing = new Set([
  'RATE_LIMIT_EXCEEDED',
  'RELAY_UNREACHABLE',
  'VAULT_UNREACHABLE',
  'VAULT_TIMEOUT',
  'OUTCOME_UNKNOWN',
  'SIGNER_LOST',
  'REQUEST_EXPIRED',
])

export interface OrderOptions {
  readonly onStep: (text: string) => void
  /** Called with the id of the approval that the owner must decide. */
  readonly onApprovalRequest?: (id: string) => void
  /** Minimum time between two requests, in ms. */
  readonly pauseMs?: number
}

/** The open approval of a payment. */
interface Question {
  readonly id: string
  readonly endsAtMs: number
}

/**
 * Has the vault build and sign the payment of one offer. While the approval is open, the same request is repeated with the same
 * Idempotency-Key, until the approval is decided or expires, or `signal` ends. A repeated request joins the open approval, even
 * after a restart of the vault. If a response was lost, the repeated request gets it again.
 *
 * @returns x402 `payload` for exactly this resource and entry. This function does not check what the payload pays
 * @throws {VaultRefusal}
 */
export async function orderFromVault(
  callVault: CallVault,
  terms: OfferTerms,
  order: Order & { readonly channel?: ChannelOrder },
  signal: AbortSignal,
  { onStep, onApprovalRequest, pauseMs = DEFAULT_PAUSE_MS }: OrderOptions,
): Promise<Readonly<Record<string, unknown>>> {
  const { asset, amountAtomic } = terms
  const units = (amount: bigint) => formatAmount(amount, asset.decimals)
  const { channel } = order
  const request = {
    method: 'POST',
    path: '/v1/vault/sign-payment',
    body: {
      payment_required: { x402Version: 2, resource: order.resource, accepts: [order.entry] },
      max_amount: units(amountAtomic),
      network: asset.network,
      url: order.url.href,
      agent_name: 'tollgate pay',
      ...(channel !== undefined && {
        voucher_total: units(channel.totalAtomic),
        ...(channel.depositAtomic !== null && { deposit: units(channel.depositAtomic) }),
      }),
    },
    idempotencyKey: order.idempotencyKey ?? `pay_${randomBytes(16).toString('base64url')}`,
    signal,
  } as const
  let question: Question | undefined
  let endsAtMs = performance.now() + PATIENCE_MS
  for (;;) {
    const sentAtMs = performance.now()
    // The first request does not wait, so that the user learns at once that the run waits for the owner.
    const waitSeconds = question === undefined ? 0 : WAIT_SECONDS
    const response = await callVault({ ...request, waitSeconds }).catch(unanswered)
    if (signal.aborted) throw await interrupted(callVault, question)
    let pauseUntilMs = sentAtMs + pauseMs
    if (!(response instanceof HttpFailure)) {
      if (response.status === 200) return payloadOf(response, order)
      const asked = response.status === 202 ? approvalOf(response) : undefined
      if (asked === undefined && !mayPass(response, question)) throw refusalOf(response)
      pauseUntilMs = Math.max(pauseUntilMs, performance.now() + response.retryAfterMs)
      if (asked !== undefined) {
        if (question === undefined) {
          onStep(`Waiting for the owner: tollgate vault approve ${asked.id}`)
          onApprovalRequest?.(asked.id)
          pauseUntilMs = 0
        }
        question = asked
        endsAtMs = asked.endsAtMs
      }
    }
    if (Math.max(pauseUntilMs, performance.now()) > endsAtMs) throw gaveUp(response, question)
    const pause = Math.max(0, pauseUntilMs - performance.now())
    await wait(pause, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) throw await interrupted(callVault, question)
  }
}

function unanswered(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error
  throw error
}

function payloadOf(response: VaultResponse, order: Order): Readonly<Record<string, unknown>> {
  const read = readPaymentHeader(own(response.body, 'payment_header'), order)
  if (read.ok) return read.payload
  throw new VaultRefusal(
    'refused',
    `The vault's response is not the payment that was ordered: ${read.message}. The payment was not sent.`,
  )
}

/** The open approval that a 202 names. Undefined if the response names none. */
function approvalOf({ body }: VaultResponse): Question | undefined {
  const [id, expiresAt] = [own(body, 'approval_id'), own(body, 'expires_at')]
  if (typeof id !== 'string' || !/^[A-Za-z0-9_-]{1,80}$/.test(id)) return undefined
  // The time is bounded, because the vault's clock may differ from this machine's. The vault itself decides when the approval
  // expires.
  const leftMs = (typeof expiresAt === 'string' ? Date.parse(expiresAt) : Number.NaN) - Date.now()
  const boundedMs = Number.isNaN(leftMs) ? MAX_QUESTION_MS : Math.min(Math.max(leftMs, 0), MAX_QUESTION_MS)
  return { id, endsAtMs: performance.now() + boundedMs + PATIENCE_MS }
}

/**
 * Whether to retry. If the vault locks itself while an approval is open, the request is retried, because the owner has to unlock
 * the vault to decide.
 */
function mayPass(response: VaultResponse, question: Question | undefined): boolean {
  const code = codeOf(response)
  return passing.has(code) || (code === 'VAULT_LOCKED' && question !== undefined)
}

function gaveUp(response: VaultResponse | HttpFailure, question: Question | undefined): VaultRefusal {
  const about = question === undefined ? '' : ` The approval was ${question.id}.`
  if (!(response instanceof HttpFailure)) {
    if (response.status !== 202) return refusalOf(response)
    return new VaultRefusal('vault_unanswered', `The owner did not decide in time.${about} Nothing was paid.`)
  }
  const why = `The vault could not be reached: ${response.message}.`
  return new VaultRefusal('vault_unavailable', `${why}${about} Nothing was paid.`, { cause: response })
}

/** Withdraws the approval, because the run has ended and a decision would have no effect. */
async function interrupted(callVault: CallVault, question: Question | undefined): Promise<VaultRefusal> {
  const stopped = 'Stopped before the vault had signed. Nothing was paid.'
  if (question === undefined) return new VaultRefusal('vault_unanswered', stopped)
  const path = `/v1/vault/approvals/${question.id}/cancel`
  const canceled = await callVault({
    method: 'POST',
    path,
    body: {},
    signal: AbortSignal.timeout(5_000),
  }).catch(() => null)
  const end = canceled?.status === 200 ? 'The approval was withdrawn.' : ''
  return new VaultRefusal('vault_unanswered', `${stopped} ${end}`.trim())
}

type ReadPaymentHeader =
  | { readonly ok: true; readonly payload: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly message: string }

/**
 * Reads a `PAYMENT-SIGNATURE` from an external signer. It must be x402 version 2, for exactly the ordered resource and entry, and
 * contain nothing else. The check of the chain finds out what its payload pays.
 */
function readPaymentHeader(header: unknown, { resource, entry }: Order): ReadPaymentHeader {
  if (typeof header !== 'string') return refuse('it has no payment_header')
  const decoded = decodeHeader(header)
  if (!decoded.ok) return refuse(`its payment_header is not readable. ${decoded.message}`)
  const payment = decoded.value
  if (own(payment, 'x402Version') !== 2) return refuse('the payment is not x402 version 2')
  if (!isDeepStrictEqual(own(payment, 'resource'), resource))
    return refuse('the payment is for another resource')
  if (!isDeepStrictEqual(own(payment, 'accepted'), entry)) return refuse('the payment is for another offer')
  const payload = own(payment, 'payload')
  if (!isObject(payload)) return refuse('the payment has no payload')
  if (Object.keys(payment).length !== 4) return refuse('the payment contains more than was ordered')
  return { ok: true, payload }
}

const refuse = (message: string): ReadPaymentHeader => ({ ok: false, message })
