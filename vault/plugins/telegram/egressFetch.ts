import type { VaultPorts } from '../../../core/plugin/vault.ts'

/** Answers of the Bot API are small; 100 updates of long texts are below this. */
const maxBytes = 4_000_000

/** As much of `fetch` as grammY uses. */
type Fetch = (
  url: string,
  init: { method?: string; headers?: Record<string, string>; body?: unknown; signal?: AbortSignal },
) => Promise<{ json(): Promise<unknown> }>

/**
 * A `fetch` over the way out that the vault grants plugins, for grammY, which would open connections of its own
 * (node-fetch): addresses are checked, redirects are not followed, no proxy of the environment is used, and answers are
 * bounded in size and time.
 */
export const egressFetch =
  (egress: VaultPorts['egress'], timeoutMs: number): Fetch =>
  async (url, { method = 'GET', headers = {}, body, signal }) => {
    // Strings only: nothing is ever uploaded.
    if (typeof body !== 'string') throw new Error('Expected a body of JSON.')
    const given = new AbortController()
    const giveUp = () => given.abort()
    // grammY brings a signal class of its own.
    signal?.addEventListener('abort', giveUp)
    if (signal?.aborted) giveUp()
    try {
      const answer = await egress.request({
        url,
        method,
        headers,
        body,
        timeoutMs,
        maxBytes,
        signal: given.signal,
      })
      return { json: async () => readAnswer(answer.status, answer.body) }
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
  }

/** The Bot API says in JSON what went wrong, too; a proxy in front of it does not. */
function readAnswer(status: number, body: Uint8Array): object {
  const value: unknown = parsed(Buffer.from(body).toString('utf8'))
  const isAnswer = typeof value === 'object' && value !== null && 'ok' in value
  return isAnswer
    ? value
    : {
        ok: false,
        error_code: status < 400 ? 502 : status,
        description: 'The answer is not JSON of the Bot API.',
      }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
