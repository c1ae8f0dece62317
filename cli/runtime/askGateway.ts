import { setTimeout as sleep } from 'node:timers/promises'
import { UsageError } from '../output/exitCodes.ts'

const TIMEOUT_MS = 30_000
/** A minute's requests are counted by the minute; whoever has used up an hour's hears so. */
const LONGEST_WAIT_S = 60

/**
 * Asks the marketplace API of a gateway with the store's key and reads `data` of the answer. Where that reads and there were too many
 * requests in the minute, it waits for the next: a list of ten thousand links is a hundred pages.
 *
 * @param gateway base address
 * @param body what is sent; undefined reads, unless `method` says otherwise
 * @throws `UsageError` without a key; an error with the gateway's own words when it refuses
 */
export async function askGateway<T>(
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
        `The gateway at ${gateway} does not answer. Is it running (tollgate start)? Name its address with --gateway if it has another.`,
        { cause },
      )
    })
    const answer = (await response.json().catch(() => ({}))) as { data?: T; error?: ApiError }
    if (answer.data !== undefined) return answer.data
    // A deletion answers without data.
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
  if (error === undefined) return 'The gateway gave an answer that is not one of its API. Is --gateway right?'
  // One detail is the message itself.
  const details = (error.details ?? [])
    .map((d) => `${d.path}: ${d.message}`)
    .filter((detail) => detail !== error.message)
    .map((detail) => `\n  ${detail}`)
  return `${error.code}: ${error.message}${details.join('')}`
}
