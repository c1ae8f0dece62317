import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { formatAmount } from '../../core/domain/money.ts'
import { decodeHeader } from '../../core/x402/header.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { isObject, own } from '../../core/x402/strictJson.ts'
import type { Order } from '../buyer.ts'
import { HttpFailure } from '../httpCall.ts'
import { type AskVault, codeOf, refusalOf, type VaultAnswer, VaultRefusal } from './vaultClient.ts'

/** What one request waits for the owner, in seconds: the vault's own default. */
const WAIT_SECONDS = 25
/** How long a vault that is away is asked again while no question to the owner is open, in ms. */
const PATIENCE_MS = 20_000
const DEFAULT_PAUSE_MS = 1_000
/** Longest life of a question that is believed, in ms. */
const MAX_QUESTION_MS = 3_600_000

/** Codes after which the same request under the same key may be sent again: nothing was done, or it is joined. */
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
  /** Hears the id of the approval that the owner is asked for. */
  readonly onQuestion?: (id: string) => void
  /** Shortest time between two requests, in ms. */
  readonly pauseMs?: number
}

/** The owner's open question about a payment. */
interface Question {
  readonly id: string
  readonly endsAtMs: number
}

/**
 * Has the vault build and sign the payment of one offer. While the owner is asked, the same request is sent again under
 * the same Idempotency-Key until it is decided, expired or `signal` ends, also over a restart of the vault: it joins the
 * open question, and an answer that was lost on the way is given again.
 *
 * @returns x402 `payload`, for exactly this resource and entry; what it pays is not checked here
 * @throws {VaultRefusal}
 */
export async function orderFromVault(
  ask: AskVault,
  terms: OfferTerms,
  order: Order,
  signal: AbortSignal,
  { onStep, onQuestion, pauseMs = DEFAULT_PAUSE_MS }: OrderOptions,
): Promise<Readonly<Record<string, unknown>>> {
  const { asset, amountAtomic } = terms
  const request = {
    method: 'POST',
    path: '/v1/vault/sign-payment',
    body: {
      payment_required: { x402Version: 2, resource: order.resource, accepts: [order.entry] },
      max_amount: formatAmount(amountAtomic, asset.decimals),
      network: asset.network,
      url: order.url.href,
      agent_name: 'tollgate pay',
    },
    idempotencyKey: order.idempotencyKey ?? `pay_${randomBytes(16).toString('base64url')}`,
    signal,
  } as const
  let question: Question | undefined
  let endsAtMs = performance.now() + PATIENCE_MS
  for (;;) {
    const askedAtMs = performance.now()
    // At first not at all: whoever waits should know for what.
    const waitSeconds = question === undefined ? 0 : WAIT_SECONDS
    const answer = await ask({ ...request, waitSeconds }).catch(unanswered)
    if (signal.aborted) throw await interrupted(ask, question)
    let pauseUntilMs = askedAtMs + pauseMs
    if (!(answer instanceof HttpFailure)) {
      if (answer.status === 200) return payloadOf(answer, order)
      const asked = answer.status === 202 ? questionOf(answer) : undefined
      if (asked === undefined && !mayPass(answer, question)) throw refusalOf(answer)
      pauseUntilMs = Math.max(pauseUntilMs, performance.now() + answer.retryAfterMs)
      if (asked !== undefined) {
        if (question === undefined) {
          onStep(`Waiting for the owner: tollgate vault approve ${asked.id}`)
          onQuestion?.(asked.id)
          pauseUntilMs = 0
        }
        question = asked
        endsAtMs = asked.endsAtMs
      }
    }
    if (Math.max(pauseUntilMs, performance.now()) > endsAtMs) throw gaveUp(answer, question)
    const pause = Math.max(0, pauseUntilMs - performance.now())
    await wait(pause, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) throw await interrupted(ask, question)
  }
}

function unanswered(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error
  throw error
}

function payloadOf(answer: VaultAnswer, order: Order): Readonly<Record<string, unknown>> {
  const read = readPaymentHeader(own(answer.body, 'payment_header'), order)
  if (read.ok) return read.payload
  throw new VaultRefusal(
    'refused',
    `The vault's answer is not what was asked for: ${read.message}. It was not sent.`,
  )
}

/** The open question of a 202; undefined when the answer does not name one. */
function questionOf({ body }: VaultAnswer): Question | undefined {
  const [id, expiresAt] = [own(body, 'approval_id'), own(body, 'expires_at')]
  if (typeof id !== 'string' || !/^[A-Za-z0-9_-]{1,80}$/.test(id)) return undefined
  // The owner's clock may be another than ours; the vault itself says when it is over.
  const leftMs = (typeof expiresAt === 'string' ? Date.parse(expiresAt) : Number.NaN) - Date.now()
  const boundedMs = Number.isNaN(leftMs) ? MAX_QUESTION_MS : Math.min(Math.max(leftMs, 0), MAX_QUESTION_MS)
  return { id, endsAtMs: performance.now() + boundedMs + PATIENCE_MS }
}

/** While a question is open, a vault that locks itself is waited for: its owner has to open it to answer. */
function mayPass(answer: VaultAnswer, question: Question | undefined): boolean {
  const code = codeOf(answer)
  return passing.has(code) || (code === 'VAULT_LOCKED' && question !== undefined)
}

function gaveUp(answer: VaultAnswer | HttpFailure, question: Question | undefined): VaultRefusal {
  const about = question === undefined ? '' : ` The question to the owner was ${question.id}.`
  if (!(answer instanceof HttpFailure)) {
    if (answer.status !== 202) return refusalOf(answer)
    return new VaultRefusal('vault_unanswered', `The owner did not answer in time.${about} Nothing was paid.`)
  }
  const why = `The vault could not be reached: ${answer.message}.`
  return new VaultRefusal('vault_away', `${why}${about} Nothing was paid.`, { cause: answer })
}

/** Nobody waits any more: the owner is not left with a question whose answer would be of no use. */
async function interrupted(ask: AskVault, question: Question | undefined): Promise<VaultRefusal> {
  const stopped = 'Stopped before the vault had signed; nothing was paid.'
  if (question === undefined) return new VaultRefusal('vault_unanswered', stopped)
  const path = `/v1/vault/approvals/${question.id}/cancel`
  const canceled = await ask({ method: 'POST', path, body: {}, signal: AbortSignal.timeout(5_000) }).catch(
    () => null,
  )
  const end = canceled?.status === 200 ? 'The question to the owner was taken back.' : ''
  return new VaultRefusal('vault_unanswered', `${stopped} ${end}`.trim())
}

type ReadPaymentHeader =
  | { readonly ok: true; readonly payload: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly message: string }

/**
 * Reads a `PAYMENT-SIGNATURE` that somebody else made: x402 version 2, for the very resource and the very entry that were
 * ordered, with nothing beside them. What its payload pays is for the chain's own check.
 */
function readPaymentHeader(header: unknown, { resource, entry }: Order): ReadPaymentHeader {
  if (typeof header !== 'string') return refuse('it has no payment_header')
  const decoded = decodeHeader(header)
  if (!decoded.ok) return refuse(`its payment_header is not readable. ${decoded.message}`)
  const payment = decoded.value
  if (own(payment, 'x402Version') !== 2) return refuse('the payment is not of x402 version 2')
  if (!isDeepStrictEqual(own(payment, 'resource'), resource))
    return refuse('the payment is for another resource')
  if (!isDeepStrictEqual(own(payment, 'accepted'), entry)) return refuse('the payment is for another offer')
  const payload = own(payment, 'payload')
  if (!isObject(payload)) return refuse('the payment has no payload')
  if (Object.keys(payment).length !== 4) return refuse('the payment holds more than was ordered')
  return { ok: true, payload }
}

const refuse = (message: string): ReadPaymentHeader => ({ ok: false, message })
