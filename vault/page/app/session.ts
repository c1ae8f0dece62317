import { ApiFault } from '../../../web/shell/api.ts'

/** The owner's browser session: a token of the vault, kept for this tab only. It ends with the vault's process. */
const key = 'session'

/** The vault's error message. `UNREACHABLE` if the vault did not respond. */
export class Refusal extends ApiFault {
  readonly retryAfterSeconds: number | undefined

  constructor(status: number, code: string, message: string, retryAfterSeconds?: number) {
    super(status, { code, message })
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** Called when a response shows that the browser session has ended or the vault is locked. */
export const hooks = {
  signedOut: (): void => {},
  locked: (): void => {},
}

export const session = {
  get token(): string | null {
    return sessionStorage.getItem(key)
  },
  keep: (token: string): void => sessionStorage.setItem(key, token),
  drop: (): void => sessionStorage.removeItem(key),
}

/**
 * Minimum clock difference that counts as skew, in ms. Network delay and the whole seconds in `Date` cause smaller differences.
 */
const MIN_SKEW_MS = 3_000
let skewMs = 0

/** The time of the vault's clock in ms, which decides when approvals expire. */
export const vaultNow = (): number => Date.now() + skewMs

/**
 * One call of the vault's API.
 *
 * @param path below `/v1/vault`
 * @throws {Refusal}
 */
export async function call<T>(method: string, path: string, body?: object): Promise<T> {
  const { token } = session
  const response = await reach(`/v1/vault${path}`, {
    method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const value: unknown = await response.json().catch(() => ({}))
  if (response.ok) return value as T
  const { error = {} } = value as { error?: { code?: string; message?: string } }
  const { code = 'FAILED', message = `The vault returned status ${response.status}.` } = error
  if (code === 'UNAUTHORIZED' && token !== null) hooks.signedOut()
  if (code === 'VAULT_LOCKED') hooks.locked()
  const waitSeconds = Number(response.headers.get('retry-after'))
  throw new Refusal(response.status, code, message, waitSeconds > 0 ? waitSeconds : undefined)
}

/** `fetch` to the vault. It sends no browser credentials and follows no redirect. */
export async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(path, { credentials: 'omit', redirect: 'error', cache: 'no-store', ...init })
    const aheadMs = Date.parse(response.headers.get('date') ?? '') - Date.now()
    skewMs = Math.abs(aheadMs) > MIN_SKEW_MS ? aheadMs : 0
    return response
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new Refusal(0, 'UNREACHABLE', 'The vault does not respond. Run tollgate vault, then try again.')
  }
}
