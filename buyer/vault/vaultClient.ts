import { parseBody } from '../../core/x402/parseBody.ts'
import { isObject, own } from '../../core/x402/strictJson.ts'
import { BuyerRefusal } from '../buyer.ts'
import { callOnce, HttpFailure, valuesOf } from '../httpCall.ts'
import type { PayOutcome } from '../payReport.ts'

/** Longest answer of a vault that is read: a payment header is at most 16 KiB. */
const MAX_ANSWER_BYTES = 300_000
/** How long an answer may take beyond what the vault was asked to wait, in ms. */
const ANSWER_TIMEOUT_MS = 35_000
const MAX_RETRY_AFTER_MS = 60_000

/** What a vault, or a proxy in front of one, said. */
export interface VaultAnswer {
  readonly status: number
  /** Empty when it was no JSON object. */
  readonly body: Readonly<Record<string, unknown>>
  /** `Retry-After` in ms; 0 without one. */
  readonly retryAfterMs: number
}

export interface VaultRequest {
  readonly method: 'GET' | 'POST'
  /** Begins with a slash. */
  readonly path: string
  readonly body?: object
  /** How long the vault may wait for its owner before it answers, in whole seconds. */
  readonly waitSeconds?: number
  readonly idempotencyKey?: string
  readonly signal: AbortSignal
}

/** Asks a vault. @throws {HttpFailure} when there is no answer */
export type AskVault = (request: VaultRequest) => Promise<VaultAnswer>

/**
 * @param base address of the vault or of a proxy in front of it
 * @param token the agent's `vat_…`; undefined for a proxy on this machine, which has the agent's credential itself
 */
export function createVaultClient(base: URL, token: string | undefined): AskVault {
  return async ({ method, path, body, waitSeconds = 0, idempotencyKey, signal }) => {
    const headers = ['Accept', 'application/json', 'User-Agent', 'tollgate-pay']
    if (token !== undefined) headers.push('Authorization', `Bearer ${token}`)
    if (body !== undefined) headers.push('Content-Type', 'application/json', 'Prefer', `wait=${waitSeconds}`)
    if (idempotencyKey !== undefined) headers.push('Idempotency-Key', idempotencyKey)
    const answer = await callOnce({
      url: new URL(base.pathname.replace(/\/$/, '') + path, base),
      method,
      headers,
      body: body === undefined ? undefined : Buffer.from(JSON.stringify(body), 'utf8'),
      maxBodyBytes: MAX_ANSWER_BYTES,
      signal: AbortSignal.any([signal, AbortSignal.timeout(waitSeconds * 1_000 + ANSWER_TIMEOUT_MS)]),
    })
    if (!answer.isWhole || !answer.isWithinLimit)
      throw new HttpFailure(`the answer of ${base.host} was broken off`, true)
    const parsed = parseBody(answer.body)
    return {
      status: answer.status,
      body: parsed.ok && isObject(parsed.value) ? parsed.value : {},
      retryAfterMs: retryAfterMs(valuesOf(answer.headers, 'retry-after')[0]),
    }
  }
}

const retryAfterMs = (value: string | undefined): number =>
  value !== undefined && /^\d{1,6}$/.test(value) ? Math.min(Number(value) * 1_000, MAX_RETRY_AFTER_MS) : 0

/** The vault gave no payment. Its message is for the user and may quote the vault. */
export class VaultRefusal extends BuyerRefusal {
  constructor(outcome: PayOutcome, message: string, options?: ErrorOptions) {
    super(message, options, outcome)
  }
}

/** The code of a vault's error; empty when the answer is none of a vault. */
export function codeOf({ body }: VaultAnswer): string {
  const error = own(body, 'error')
  const code = isObject(error) ? own(error, 'code') : undefined
  return typeof code === 'string' ? code : ''
}

/** What an answer without a payment means for the run, in words. */
export function refusalOf(answer: VaultAnswer): VaultRefusal {
  const error = own(answer.body, 'error')
  const said = isObject(error) ? [own(error, 'message'), own(error, 'action')] : []
  const words = said.filter((text) => typeof text === 'string').join(' ')
  const code = codeOf(answer)
  if (code === '')
    return new VaultRefusal('vault_away', `What answers (${answer.status}) is no vault. Check --vault.`)
  const outcome = outcomeOf(code, answer.status)
  return new VaultRefusal(outcome, `${beginnings[outcome] ?? ''} ${words} Nothing was paid.`.trim())
}

const beginnings: Partial<Record<PayOutcome, string>> = {
  vault_refused: 'The vault refused:',
  over_budget: 'The budget is exceeded:',
  vault_locked: 'The vault does not sign now:',
  vault_unanswered: 'The owner did not answer in time:',
  vault_away: 'The vault is away:',
  refused: 'The vault did not build the payment:',
}

function outcomeOf(code: string, status: number): PayOutcome {
  if (code === 'BUDGET_EXCEEDED_TX' || code === 'BUDGET_EXCEEDED_DAILY') return 'over_budget'
  if (code === 'VAULT_LOCKED') return 'vault_locked'
  if (code === 'APPROVAL_EXPIRED') return 'vault_unanswered'
  if (code === 'APPROVAL_RESOLVED' || status === 401 || status === 403) return 'vault_refused'
  // The offer, or the chain that the vault asked about it, as with a key of one's own.
  if (code === 'CHAIN_UNAVAILABLE' || status < 429) return 'refused'
  return 'vault_away'
}
