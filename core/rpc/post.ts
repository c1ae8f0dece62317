import { RpcUnreachable } from './rpcError.ts'

/** One request to a node: JSON by POST. */
export interface NodeRequest {
  readonly url: string
  readonly body: string
  readonly maxAnswerBytes: number
  /** For everything from here to the last byte, in milliseconds. */
  readonly timeoutMs: number
  /** Ends it before. */
  readonly signal?: AbortSignal | undefined
}

/** What came, whatever it says. */
export interface NodeAnswer {
  readonly status: number
  readonly text: string
}

/**
 * How a request goes out. The core has no network of its own: who makes a client hands it in. It follows no redirect,
 * compresses nothing, repeats nothing and fails with a {@link NotAnswered}.
 */
export type AskNode = (request: NodeRequest) => Promise<NodeAnswer>

/** No whole answer came. The message says why, for people, and holds nothing of the URL. */
export class NotAnswered extends Error {
  /**
   * `broken`: the connection ended, as a kept one does that the node had closed already. `late`: not in time. `long`: more
   * than is read.
   */
  readonly kind: 'broken' | 'late' | 'long' | 'failed'

  constructor(kind: NotAnswered['kind'], message: string) {
    super(message)
    this.name = 'NotAnswered'
    this.kind = kind
  }
}

/** How one request is sent, and what of its answer is read. */
export interface PostOptions {
  readonly ask: AskNode
  readonly maxAnswerBytes: number
  readonly isRepeatable: boolean
  /** When it is over, by `performance.now()`. */
  readonly endMs: number
  /** Ends it before. */
  readonly signal: AbortSignal | undefined
}

/**
 * One JSON-RPC request over HTTP, and the answer as JSON: bounded, and never from where a redirect leads. Messages hold
 * nothing of the URL: its path, its query and its user name may be the provider's key.
 *
 * @param body an array for a batch
 * @throws {BatchRefused} {RpcLate} {RpcUnreachable}
 */
export async function post(url: string, body: unknown, options: PostOptions): Promise<unknown> {
  const { ask, maxAnswerBytes, isRepeatable, endMs, signal } = options
  const request = { url, body: JSON.stringify(body), maxAnswerBytes, signal }
  const timeoutMs = () => Math.max(1, endMs - performance.now())
  let answer: NodeAnswer
  try {
    answer = await ask({ ...request, timeoutMs: timeoutMs() }).catch((error: unknown) => {
      // A keep-alive connection that the node had closed already.
      if (isRepeatable && error instanceof NotAnswered && error.kind === 'broken')
        return ask({ ...request, timeoutMs: timeoutMs() })
      throw error
    })
  } catch (error) {
    if (!(error instanceof NotAnswered)) throw error
    if (error.kind === 'late') throw new RpcLate(error.message)
    if (error.kind === 'long') throw new BatchRefused(error.message, true)
    throw new RpcUnreachable(error.message)
  }
  const { status, text } = answer
  if (status === 429 || status >= 500) throw new RpcUnreachable(`it answered HTTP ${status}`)
  // What proxies say to a form or a length of request that they don't take.
  if (Array.isArray(body) && refusesBatch.has(status)) {
    throw new BatchRefused(`it answered a batch with HTTP ${status}`, false)
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

/** The limit of a request was over before its answer was there. */
export class RpcLate extends RpcUnreachable {}

/** Why nothing came in time. */
export const lateMessage = 'no answer in time'
/** Why an answer that came was not read. */
export const longMessage = (maxBytes: number): string => `it answered more than ${maxBytes} bytes`

/** What the name and password in a node's URL are sent as (RFC 7617); undefined where it has none. */
export function basicAuthorization({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined
  return `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString('base64')}`
}

/** What stands in a URL, with its `%40` and the like as the characters that they are for. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
