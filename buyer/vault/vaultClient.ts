import { isObject, own, parseBody } from '../../core/x402/strictJson.ts'
import { BuyerRefusal } from '../buyer.ts'
import { callOnce, HttpFailure, valuesOf } from '../httpCall.ts'
import type { PayOutcome } from '../payReport.ts'

/** Maximum size of a vault's response, in bytes. A payment header has at most 16 KiB. */
const MAX_ANSWER_BYTES = 300_000
/** Timeout of a response, in ms. The time that the vault may wait for its owner comes on top. */
const ANSWER_TIMEOUT_MS = 35_000
const MAX_RETRY_AFTER_MS = 60_000

/** Response of a vault, or of a proxy in front of it. */
export interface VaultResponse {
  readonly status: number
  /** Empty if the body is not a JSON object. */
  readonly body: Readonly<Record<string, unknown>>
  /** `Retry-After` in ms. 0 if there is none. */
  readonly retryAfterMs: number
}

export interface VaultRequest {
  readonly method: 'GET' | 'POST'
  /** Begins with a slash. */
  readonly path: string
  readonly body?: object
  /** How long the vault may wait for its owner before it responds, in whole seconds. */
  readonly waitSeconds?: number
  readonly idempotencyKey?: string
  readonly signal: AbortSignal
}

/** Sends a request to a vault. @throws {HttpFailure} if there is no response */
export type CallVault = (request: VaultRequest) => Promise<VaultResponse>

/**
 * @param base URL of the vault, or of a proxy in front of it
 * @param token the agent's `vat_…`. Undefined for a proxy on this machine, because the proxy has the agent's credential
 */
export function createVaultClient(base: URL, token: string | undefined): CallVault {
  return async ({ method, path, body, waitSeconds = 0, idempotencyKey, signal }) => {
    const headers = ['Accept', 'application/json', 'User-Agent', 'tollgate-pay']
    if (token !== undefined) headers.push('Authorization', `Bearer ${token}`)
    if (body !== undefined) headers.push('Content-Type', 'application/json', 'Prefer', `wait=${waitSeconds}`)
    if (idempotencyKey !== undefined) headers.push('Idempotency-Key', idempotencyKey)
    const response = await callOnce({
      url: new URL(base.pathname.replace(/\/$/, '') + path, base),
      method,
      headers,
      body: body === undefined ? undefined : Buffer.from(JSON.stringify(body), 'utf8'),
      maxBodyBytes: MAX_ANSWER_BYTES,
      signal: AbortSignal.any([signal, AbortSignal.timeout(waitSeconds * 1_000 + ANSWER_TIMEOUT_MS)]),
    })
    if (!response.isWhole || !response.isWithinLimit)
      throw new HttpFailure(`the response of ${base.host} broke off`, true)
    const parsed = parseBody(response.body)
    return {
      status: response.status,
      body: parsed.ok && isObject(parsed.value) ? parsed.value : {},
      retryAfterMs: retryAfterMs(valuesOf(response.headers, 'retry-after')[0]),
    }
  }
}

const retryAfterMs = (value: string | undefined): number =>
  value !== undefined && /^\d{1,6}$/.test(value) ? Math.min(Number(value) * 1_000, MAX_RETRY_AFTER_MS) : 0

/** Thrown if the vault returned no payment. The message is for the user and may quote the vault. */
export class VaultRefusal extends BuyerRefusal {
  constructor(outcome: PayOutcome, message: string, options?: ErrorOptions) {
    super(message, options, outcome)
  }
}

/** The code of a vault's error. Empty if the response does not come from a vault. */
export function codeOf({ body }: VaultResponse): string {
  const error = own(body, 'error')
  const code = isObject(error) ? own(error, 'code') : undefined
  return typeof code === 'string' ? code : ''
}

/** The error for a response without a payment, with its meaning for the run. */
export function refusalOf(response: VaultResponse): VaultRefusal {
  const error = own(response.body, 'error')
  const texts = isObject(error) ? [own(error, 'message'), own(error, 'action')] : []
  const words = texts.filter((text) => typeof text === 'string').join(' ')
  const code = codeOf(response)
  if (code === '')
    return new VaultRefusal(
      'vault_unavailable',
      `The server is not a vault (status ${response.status}). Check --vault.`,
    )
  const outcome = outcomeOf(code, response.status)
  return new VaultRefusal(outcome, `${beginnings[outcome] ?? ''} ${words} Nothing was paid.`.trim())
}

const beginnings: Partial<Record<PayOutcome, string>> = {
  vault_refused: 'The vault refused:',
  over_budget: 'The budget is exceeded:',
  vault_locked: 'The vault is not signing:',
  vault_unanswered: 'The owner did not decide in time:',
  vault_unavailable: 'The vault is unavailable:',
  refused: 'The vault did not build the payment:',
}

function outcomeOf(code: string, status: number): PayOutcome {
  if (code === 'BUDGET_EXCEEDED_TX' || code === 'BUDGET_EXCEEDED_DAILY') return 'over_budget'
  if (code === 'VAULT_LOCKED') return 'vault_locked'
  if (code === 'APPROVAL_EXPIRED') return 'vault_unanswered'
  if (code === 'APPROVAL_RESOLVED' || status === 401 || status === 403) return 'vault_refused'
  // A problem with the offer, or with a chain that the vault has queried, has the same outcome as with a wallet of this process.
  if (code === 'CHAIN_UNAVAILABLE' || status < 429) return 'refused'
  return 'vault_unavailable'
}
