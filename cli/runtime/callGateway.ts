import { setTimeout as sleep } from 'node:timers/promises'
import { UsageError } from '../output/exitCodes.ts'

const TIMEOUT_MS = 30_000
/**
 * Longest wait for a rate limit, in s. The command waits if a limit per minute is used up. If a limit per hour is used up, it
 * fails at once.
 */
const LONGEST_WAIT_S = 60

/**
 * Sends a request to a gateway's marketplace API with the store's key, and returns `data` of the response. A read that exceeds
 * the limit per minute waits for the next minute, because a list of ten thousand links has a hundred pages.
 *
 * @param gateway base URL
 * @param body JSON body. Without a body and a `method`, the request is a read
 * @throws `UsageError` without a key, and an error with the gateway's message if the gateway refuses
 */
export async function callGateway<T>(
  gateway: string,
  path: string,
  body: object | undefined,
  apiKey: string | undefined,
  method = body === undefined ? 'GET' : 'POST',
): Promise<T> {
  if (!apiKey)
    throw new UsageError(
      'Expected the API key of the store in TOLLGATE_API_KEY. `tollgate store create` prints one.',
    )
  const headers = {
    authorization: `Bearer ${apiKey}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  for (;;) {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const request = { method, ...sent, headers, signal }
    const response = await fetch(new URL(path, gateway), request).catch((cause: unknown) => {
      throw new Error(
        `The gateway at ${gateway} does not respond. Start the gateway with tollgate start. If the gateway has a different address, set the address with --gateway.`,
        { cause },
      )
    })
    const answer = (await response.json().catch(() => ({}))) as { data?: T; error?: ApiError }
    if (answer.data !== undefined) return answer.data
    // The response to a deletion has no data.
    if (response.ok && method === 'DELETE') return undefined as T
    const waitSeconds = response.status === 429 ? Number(response.headers.get('retry-after')) : 0
    if (body !== undefined || !(waitSeconds > 0 && waitSeconds <= LONGEST_WAIT_S))
      throw new Error(wordsOf(answer.error))
    await sleep(waitSeconds * 1_000)
  }
}

interface ApiError {
  readonly code: string
  readonly message: string
  readonly details?: readonly { readonly path: string; readonly message: string }[]
}

function wordsOf(error: ApiError | undefined): string {
  if (error === undefined) return "The server's response is not one of a gateway's API. Check --gateway."
  // A single detail is the message itself, so it is not repeated.
  const details = (error.details ?? [])
    .map((d) => `${d.path}: ${d.message}`)
    .filter((detail) => detail !== error.message)
    .map((detail) => `\n  ${detail}`)
  return `${error.code}: ${error.message}${details.join('')}`
}
