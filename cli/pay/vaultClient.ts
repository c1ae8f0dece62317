import { isObject } from '../../core/x402/own.ts'
import { callOnce, HttpFailure, valuesOf } from './httpCall.ts'
import { parseBody } from './parseBody.ts'

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
