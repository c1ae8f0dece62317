/**
 * The owner's session: a token of the vault's, kept for this tab only. It is worth nothing when the vault's process ends.
 */
const key = 'session'

/** A refusal of the vault in its own words, or that it could not be reached (`UNREACHABLE`). */
export class Refusal extends Error {
  /**
   * @param {string} code @param {string} message @param {number} [retryAfterSeconds]
   */
  constructor(code, message, retryAfterSeconds) {
    super(message)
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** What `main.js` does when an answer says that the session is over, or the vault locked. */
export const hooks = {
  signedOut: () => {},
  locked: () => {},
}

export const session = {
  get token() {
    return sessionStorage.getItem(key)
  },
  /** @param {string} token */
  keep: (token) => sessionStorage.setItem(key, token),
  drop: () => sessionStorage.removeItem(key),
}

/** More than this between two clocks is no delay of an answer, whose `Date` has whole seconds. */
const leastSkewMs = 3_000
let skewMs = 0

/** The time by the vault's clock, by which questions end; milliseconds. */
export const vaultNow = () => Date.now() + skewMs

/**
 * One call of the vault's API.
 *
 * @param {string} method @param {string} path below `/v1/vault` @param {object} [body]
 * @returns {Promise<any>}
 */
export async function call(method, path, body) {
  const { token } = session
  const answer = await reach(`/v1/vault${path}`, {
    method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const value = await answer.json().catch(() => ({}))
  if (answer.ok) return value
  const { code = 'FAILED', message = `The vault answered ${answer.status}.` } = value.error ?? {}
  if (code === 'UNAUTHORIZED' && token !== null) hooks.signedOut()
  if (code === 'VAULT_LOCKED') hooks.locked()
  const wait = Number(answer.headers.get('retry-after'))
  throw new Refusal(code, message, wait > 0 ? wait : undefined)
}

/**
 * `fetch` to the vault itself: nothing of the browser's own is sent along, and no redirect is followed.
 *
 * @param {string} path @param {RequestInit} init
 */
export async function reach(path, init) {
  try {
    const answer = await fetch(path, { credentials: 'omit', redirect: 'error', cache: 'no-store', ...init })
    const aheadMs = Date.parse(answer.headers.get('date') ?? '') - Date.now()
    skewMs = Math.abs(aheadMs) > leastSkewMs ? aheadMs : 0
    return answer
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new Refusal(
      'UNREACHABLE',
      'The vault does not answer. Start it with tollgate vault, then try again.',
    )
  }
}

/** @param {unknown} error */
export const wordsOf = (error) =>
  error instanceof Refusal ? error.message : `Something went wrong: ${error}`
