/** One request to a node, which is JSON by POST. */
export interface NodeRequest {
  readonly url: string
  readonly body: string
  readonly maxResponseBytes: number
  /** Time limit from the sending of the request to the last byte of the response, in ms. */
  readonly timeoutMs: number
  /** Ends the request early. */
  readonly signal?: AbortSignal | undefined
}

/** The response of a node. Its content may be anything. */
export interface NodeResponse {
  readonly status: number
  readonly text: string
}

/**
 * Sends a request. Core has no network access, so the creator of a client passes this function. It follows no redirect, compresses
 * nothing, repeats nothing, and fails with a {@link NotAnswered}.
 */
export type CallNode = (request: NodeRequest) => Promise<NodeResponse>

/** The whole response did not arrive. The message gives the reason and contains no part of the URL. */
export class NotAnswered extends Error {
  /**
   * `broken`: the connection ended, for example because the node had already closed a keep-alive connection. `late`: the response
   * did not arrive in time. `long`: the response is longer than the maximum.
   */
  readonly kind: 'broken' | 'late' | 'long' | 'failed'

  constructor(kind: NotAnswered['kind'], message: string) {
    super(message)
    this.name = 'NotAnswered'
    this.kind = kind
  }
}

/** How to send one request, and how much of its response to read. */
export interface PostOptions {
  readonly sendRequest: CallNode
  readonly maxResponseBytes: number
  readonly isRepeatable: boolean
  /** The deadline, by `performance.now()`. */
  readonly endMs: number
  /** Ends the request early. */
  readonly signal: AbortSignal | undefined
}

/**
 * Sends one JSON-RPC request over HTTP, and returns the response as JSON. Size and time are limited, and redirects are not
 * followed. Messages contain no part of the URL, because its path, query or user name may be the provider's key.
 *
 * @param body an array for a batch
 * @throws {BatchRefused} {RpcLate} {RpcUnreachable}
 */
export async function post(url: string, body: unknown, options: PostOptions): Promise<unknown> {
  const { sendRequest, maxResponseBytes, isRepeatable, endMs, signal } = options
  const request = { url, body: JSON.stringify(body), maxResponseBytes, signal }
  const timeoutMs = () => Math.max(1, endMs - performance.now())
  let response: NodeResponse
  try {
    response = await sendRequest({ ...request, timeoutMs: timeoutMs() }).catch((error: unknown) => {
      // The node had probably closed a keep-alive connection already.
      if (isRepeatable && error instanceof NotAnswered && error.kind === 'broken')
        return sendRequest({ ...request, timeoutMs: timeoutMs() })
      throw error
    })
  } catch (error) {
    if (!(error instanceof NotAnswered)) throw error
    if (error.kind === 'late') throw new RpcLate(error.message)
    if (error.kind === 'long') throw new BatchRefused(error.message, true)
    throw new RpcUnreachable(error.message)
  }
  const { status, text } = response
  if (status === 429 || status >= 500) throw new RpcUnreachable(`it returned HTTP ${status}`)
  // Statuses by which proxies refuse the form or length of a request.
  if (Array.isArray(body) && refusesBatch.has(status)) {
    throw new BatchRefused(`it returned HTTP ${status} for a batch`, false)
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new RpcUnreachable('it returned something that is not JSON')
  }
}

const refusesBatch = new Set([400, 413, 422])

/**
 * No node gave a usable response. Nodes were unreachable, slow, busy, behind or on another chain, or their responses were
 * unreadable.
 */
export class RpcUnreachable extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'RpcUnreachable'
  }
}

/** A healthy node has refused this many calls in one request. */
export class BatchRefused extends RpcUnreachable {
  readonly isTooLarge: boolean

  constructor(message: string, isTooLarge: boolean) {
    super(message)
    this.isTooLarge = isTooLarge
  }
}

/** The time limit of a request was over before its response arrived. */
export class RpcLate extends RpcUnreachable {}

/** The message for a response that did not arrive in time. */
export const lateMessage = 'no response in time'
/** The message for a response that is too long to read. */
export const longMessage = (maxBytes: number): string => `it returned more than ${maxBytes} bytes`

/** The header for the name and password in a node's URL (RFC 7617). Undefined if the URL has none. */
export function basicAuthorization({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined
  return `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString('base64')}`
}

/** A part of a URL, with `%40` and similar escapes decoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A node responded with an error, such as a revert, a refused transaction or an unsupported method. */
export class RpcRefused extends Error {
  /** The JSON-RPC code, such as -32601. */
  readonly code: number
  /** Data that the node adds, unchecked. On EVM it is revert data in hex, on Solana the result of a simulation. */
  readonly data: unknown

  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.name = 'RpcRefused'
    this.code = code
    this.data = data
  }
}

/** Whether an operation failed because of a node's response, or because no node responded. */
export const isRpcError = (error: unknown): error is RpcRefused | RpcUnreachable =>
  error instanceof RpcRefused || error instanceof RpcUnreachable

/** Maximum length of a node's message in an error, in characters. */
const MAX_MESSAGE_CHARS = 300

/** A node's response to one call. A refusal (JSON-RPC error) is a response too, because another node would refuse as well. */
export type RpcResponse =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly error: RpcRefused }

/** The result of one call among many, which is a response, or the error that no node has responded to the call. */
export type LooseResponse = RpcResponse | { readonly ok: false; readonly error: RpcUnreachable }

/**
 * JSON-RPC codes for "too many requests" (EIP-1474, -32005) and for "not now". On Solana they mean that the node is unhealthy
 * (-32005) or behind (-32016). Another node may be able to respond.
 */
const busyCodes = new Set([-32005, -32016, 429])

/**
 * Reads one item of a response. An item with an error is a refusal, even if it also has a result.
 *
 * @throws {RpcUnreachable}
 */
export function readResponse(item: unknown): RpcResponse {
  if (typeof item !== 'object' || item === null) throw malformed()
  const error = errorOf(item)
  if (error === undefined && Object.hasOwn(item, 'result')) {
    return { ok: true, result: (item as { result: unknown }).result }
  }
  const { code, message, data } = error ?? {}
  if (typeof code !== 'number') throw malformed()
  assertNotBusy(code)
  const words = String(message ?? 'no message').slice(0, MAX_MESSAGE_CHARS)
  return { ok: false, error: new RpcRefused(code, words, data) }
}

/** Like {@link readResponse}, for one of many calls. An unreadable item fails only its own call. */
export function readLoosely(item: unknown): LooseResponse {
  try {
    return readResponse(item)
  } catch (error) {
    return { ok: false, error: error as RpcUnreachable }
  }
}

/** The result of a response, including `null`. @throws {RpcRefused} {RpcUnreachable} if there is none */
export function resultOf(response: LooseResponse | undefined): unknown {
  if (response?.ok) return response.result
  throw response?.error ?? new RpcUnreachable('the node left out a response')
}

/**
 * Throws if an item's error means that the node is too busy for the whole batch.
 *
 * @throws {RpcUnreachable}
 */
export function assertNotBusy(code: unknown): void {
  if (busyCodes.has(code as number)) throw new RpcUnreachable(`it is busy (code ${code})`)
}

/** The error of an item, which may have any type. Undefined if there is none. Some nodes write `"error": null` beside a result. */
export function errorOf(item: unknown): Record<string, unknown> | undefined {
  return ((item as { error?: unknown } | null)?.error ?? undefined) as Record<string, unknown> | undefined
}

const malformed = () => new RpcUnreachable('a malformed JSON-RPC response')

const quantityForm = /^0x[0-9a-fA-F]{1,64}$/

/**
 * A number as nodes write it (JSON-RPC "quantity"). Any other value throws. For example, if a missing base fee were read as zero,
 * the transaction would never get into a block.
 *
 * @throws {RpcUnreachable}
 */
export function quantity(value: unknown): bigint {
  if (typeof value === 'string' && quantityForm.test(value)) return BigInt(value)
  throw new RpcUnreachable('expected a number from the node, got something else')
}

/** A token balance in the result of `getTransaction`, before or after the transaction. */
export interface TokenBalance {
  readonly accountIndex: number
  readonly mint: string
  /** The wallet that owns the token account. Absent in records of very old nodes. */
  readonly owner?: string
  readonly uiTokenAmount: { readonly amount: string }
}

/**
 * Token accounts of a mint with their balances, by address, in atomic units.
 *
 * @param keys the accounts of the transaction, in its own order
 * @throws {RpcUnreachable} for an invalid amount
 */
export function tokenBalances(
  list: readonly TokenBalance[] | null | undefined,
  keys: readonly string[],
  mint: string,
): ReadonlyMap<string, bigint> {
  const held = (list ?? []).filter((one) => one.mint === mint)
  return new Map(held.map((one) => [keys[one.accountIndex] ?? '', amountOf(one)]))
}

function amountOf({ uiTokenAmount }: TokenBalance): bigint {
  if (/^\d{1,20}$/.test(uiTokenAmount.amount)) return BigInt(uiTokenAmount.amount)
  throw new RpcUnreachable('expected an amount from the node, got something else')
}
