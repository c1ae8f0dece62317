import { RpcUnreachable } from './rpcError.ts'

/** How a request goes out. The core has no network of its own: who makes a client hands it in. */
export type Fetch = typeof globalThis.fetch

/** How one request is sent, and what of its answer is read. */
export interface PostOptions {
  readonly fetch: Fetch
  readonly maxAnswerBytes: number
  readonly isRepeatable: boolean
  /** Ends it. */
  readonly signal: AbortSignal
}

/**
 * One JSON-RPC request over HTTP, and the answer as JSON: bounded, and never from where a redirect leads. Messages hold
 * nothing of the URL: its path, its query and its user name may be the provider's key.
 *
 * @param body an array for a batch
 * @throws {BatchRefused} {RpcUnreachable}
 */
export async function post(url: string, body: unknown, options: PostOptions): Promise<unknown> {
  const { fetch, maxAnswerBytes, isRepeatable, signal } = options
  let text: string
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      redirect: 'error',
      signal,
    })
    if (response.status === 429 || response.status >= 500) {
      await response.body?.cancel()
      throw new RpcUnreachable(`it answered HTTP ${response.status}`)
    }
    // What proxies say to a form or a length of request that they don't take.
    if (Array.isArray(body) && refusesBatch.has(response.status)) {
      await response.body?.cancel()
      throw new BatchRefused(`it answered a batch with HTTP ${response.status}`, false)
    }
    text = await readText(response, maxAnswerBytes)
  } catch (error) {
    if (error instanceof RpcUnreachable) throw error
    const { cause } = error as { cause?: unknown }
    // A keep-alive connection that the node had closed already.
    if (isRepeatable && brokenConnection.has(codeOf(cause) ?? codeOf(error) ?? '')) {
      return post(url, body, { ...options, isRepeatable: false })
    }
    throw new RpcUnreachable(reasonOf(error, cause))
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new RpcUnreachable('it answered something that is no JSON')
  }
}

const refusesBatch = new Set([400, 413, 422])

/** A node that is well, and does not answer this many calls in one request. */
export class BatchRefused extends RpcUnreachable {
  readonly isTooLarge: boolean

  constructor(message: string, isTooLarge: boolean) {
    super(message)
    this.isTooLarge = isTooLarge
  }
}

async function readText(response: Response, maxAnswerBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop cancels the body.
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxAnswerBytes) throw new BatchRefused(`it answered more than ${maxAnswerBytes} bytes`, true)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const brokenConnection = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/** A system's or undici's code; those of a DOMException are numbers, and say less than its name. */
function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code
  return typeof code === 'string' ? code : undefined
}

/** Why nothing came. The message of an error without a cause may quote the URL, and is left out. */
function reasonOf(error: unknown, cause: unknown): string {
  if (error instanceof DOMException) return error.name === 'TimeoutError' ? 'no answer in time' : error.name
  const known = codeOf(cause) ?? codeOf(error)
  if (known !== undefined) return known
  return cause instanceof Error ? cause.message : 'its URL is none that can be asked'
}
