import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import { RpcRefused, RpcUnreachable } from './rpcError.ts'

/** How often a node must say again which chain it serves; a proxy can change what stands behind it. */
const chainRecheckMs = 60_000
const never = Number.NEGATIVE_INFINITY
/** How often the first node is asked whether it is well again, while another one stands in for it. */
const returnMs = 60_000
/** Items in one HTTP request; providers cap batches, most of them at 100. */
const maxBatchItems = 50
/** Requests at once to a node that takes no batches. */
const maxSingleRequests = 8

export interface RpcOptions {
  /** Asked in this order; the next one only while one does not answer properly. */
  readonly urls: readonly string[]
  /** Every answer of a node that serves another chain is thrown away. */
  readonly chainId: number
  /** Limit of one HTTP request, in milliseconds. */
  readonly timeoutMs: number
  readonly clock?: Clock
  readonly log?: Log
}

export interface RpcCall {
  readonly method: string
  readonly params: readonly unknown[]
}

/** What a node says to one call. A refusal (JSON-RPC error) is an answer: asking another node would not change it. */
export type RpcAnswer =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly error: RpcRefused }

/** JSON-RPC over HTTP to one chain, through the first of several nodes that answers and serves that chain. */
export interface Rpc {
  /** @throws {RpcRefused} the node's JSON-RPC error. @throws {RpcUnreachable} when no node answers. */
  call(method: string, ...params: unknown[]): Promise<unknown>
  /**
   * A call whose answer the node may keep back for as long. After that it is given up, and no other node is asked: the
   * node is well, and its answer is not needed any more.
   * @throws as {@link Rpc.call}
   */
  callWithin(limitMs: number, method: string, ...params: unknown[]): Promise<unknown>
  /**
   * All calls to one node in one request, answers in order; nothing is sent for none.
   * @throws {RpcUnreachable} when no node answers.
   */
  batch(calls: readonly RpcCall[]): Promise<RpcAnswer[]>
}

/** Makes the client; nothing is sent before the first call. */
export function createRpc(options: RpcOptions): Rpc {
  const { timeoutMs, clock = systemClock, log = silentLog } = options
  const nodes = options.urls.map(
    (url): Node => ({ url, host: hostOf(url), checkedAtMs: never, takesBatches: true }),
  )
  let preferred = 0
  /** When the first node was last found not to answer. */
  let leftAtMs = never
  let lastId = 0

  const send = async (node: Node, calls: readonly RpcCall[], limit?: AbortSignal): Promise<RpcAnswer[]> => {
    if (calls.length === 0) return []
    if (calls.length > 1 && !node.takesBatches) return sendSingly(node, calls, limit)
    const requests = calls.map((call) => ({ jsonrpc: '2.0', id: ++lastId, ...call }))
    const signal = limit ?? AbortSignal.timeout(timeoutMs)
    const body = await post(node.url, requests.length === 1 ? requests[0] : requests, signal)
    if (requests.length === 1) return [readAnswer(Array.isArray(body) ? body[0] : body)]
    // Batches may be answered in any order (JSON-RPC 2.0, section 6).
    const items: unknown[] = Array.isArray(body) ? body : [body]
    const byId = new Map(items.map((item) => [(item as { id?: unknown } | null)?.id, item]))
    if (requests.every(({ id }) => byId.has(id))) return requests.map(({ id }) => readAnswer(byId.get(id)))
    // One error for all of them, alone or in a list (geth: "batch too large"). A node that is busy says so in the same
    // form; more requests would not help it.
    for (const item of items) assertNotBusy(errorOf(item).code)
    node.takesBatches = false
    log.info({ node: node.host }, 'the node does not take JSON-RPC batches; calls go one by one')
    return sendSingly(node, calls, limit)
  }

  const sendSingly = async (
    node: Node,
    calls: readonly RpcCall[],
    limit?: AbortSignal,
  ): Promise<RpcAnswer[]> => {
    const answers: RpcAnswer[] = []
    for (let i = 0; i < calls.length; i += maxSingleRequests) {
      const few = calls.slice(i, i + maxSingleRequests)
      answers.push(...(await Promise.all(few.map((call) => send(node, [call], limit)))).flat())
    }
    return answers
  }

  const ask = async (node: Node, calls: readonly RpcCall[], limit?: AbortSignal): Promise<RpcAnswer[]> => {
    if (Math.abs(clock.now() - node.checkedAtMs) < chainRecheckMs) return send(node, calls, limit)
    // Asked along with the calls, so that knowing the chain costs no round trip of its own.
    const [chain, ...answers] = await send(node, [{ method: 'eth_chainId', params: [] }, ...calls], limit)
    const served = chain?.ok ? Number(chain.result) : Number.NaN
    if (served !== options.chainId) {
      throw new RpcUnreachable(`${node.host} serves chain ${served}, expected ${options.chainId}`)
    }
    node.checkedAtMs = clock.now()
    return answers
  }

  /** Asks the first node for its chain, beside the calls: none of them waits for a node that may be away still. */
  const tryToReturn = (): void => {
    leftAtMs = clock.now()
    const [first] = nodes
    void ask(first!, []).then(
      () => {
        preferred = 0
        log.info({ node: first!.host }, 'the preferred node answers again')
      },
      () => {},
    )
  }

  const batchOnce = async (calls: readonly RpcCall[], limit?: AbortSignal): Promise<RpcAnswer[]> => {
    if (preferred !== 0 && Math.abs(clock.now() - leftAtMs) >= returnMs) tryToReturn()
    const faults: string[] = []
    const asked = preferred
    for (let i = 0; i < nodes.length; i++) {
      const index = (asked + i) % nodes.length
      const node = nodes[index]!
      try {
        const answers = await ask(node, calls, limit)
        if (index !== asked) preferred = index
        return answers
      } catch (error) {
        if (limit?.aborted) throw new RpcUnreachable(`${node.host} kept its answer back for too long`)
        // A node that failed must name its chain again before it is believed.
        node.checkedAtMs = never
        if (index === 0) leftAtMs = clock.now()
        faults.push(error instanceof RpcUnreachable ? error.message : `${node.host}: ${String(error)}`)
      }
    }
    throw new RpcUnreachable(`No node answered for chain ${options.chainId}: ${faults.join('; ')}`)
  }

  const batch = async (calls: readonly RpcCall[]): Promise<RpcAnswer[]> => {
    if (calls.length === 0) return []
    if (calls.length <= maxBatchItems) return batchOnce(calls)
    const answers: RpcAnswer[] = []
    for (let i = 0; i < calls.length; i += maxBatchItems) {
      answers.push(...(await batchOnce(calls.slice(i, i + maxBatchItems))))
    }
    return answers
  }

  const callWithin = async (limit: AbortSignal | undefined, call: RpcCall): Promise<unknown> => {
    const [answer] = await batchOnce([call], limit)
    if (!answer!.ok) throw answer!.error
    return answer!.result
  }

  return {
    batch,
    call: (method, ...params) => callWithin(undefined, { method, params }),
    callWithin: (limitMs, method, ...params) =>
      // It takes whole milliseconds only, and what is measured is not.
      callWithin(AbortSignal.timeout(Math.ceil(Math.min(limitMs, timeoutMs))), { method, params }),
  }
}

interface Node {
  readonly url: string
  /** Without path and query: these hold the provider's key. */
  readonly host: string
  checkedAtMs: number
  takesBatches: boolean
}

async function post(url: string, body: unknown, signal: AbortSignal, isSecondTry = false): Promise<unknown> {
  const host = hostOf(url)
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
      throw new RpcUnreachable(`${host} answered HTTP ${response.status}`)
    }
    return await response.json()
  } catch (error) {
    if (error instanceof RpcUnreachable) throw error
    const cause = (error instanceof Error ? (error.cause ?? error) : {}) as {
      code?: string
      message?: string
    }
    // A keep-alive connection that the node had closed already. Whatever is sent here may be sent twice: reads change
    // nothing, and the same signed bytes are the same transaction.
    if (!isSecondTry && brokenConnection.has(cause.code ?? '')) return post(url, body, signal, true)
    throw new RpcUnreachable(`${host}: ${cause.message ?? 'failed'}`)
  }
}

const brokenConnection = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/** JSON-RPC codes by which providers say "too many requests" (EIP-1474 -32005) or "I can't now". */
const busyCodes = new Set([-32005, -32016, 429])

function readAnswer(item: unknown): RpcAnswer {
  if (typeof item !== 'object' || item === null) throw new RpcUnreachable('a malformed JSON-RPC answer')
  if (Object.hasOwn(item, 'result')) return { ok: true, result: (item as { result: unknown }).result }
  const { code, message, data } = errorOf(item)
  if (typeof code !== 'number') throw new RpcUnreachable('a malformed JSON-RPC answer')
  assertNotBusy(code)
  return {
    ok: false,
    error: new RpcRefused(code, String(message), typeof data === 'string' ? data : undefined),
  }
}

function errorOf(item: unknown): Record<string, unknown> {
  return ((item as { error?: unknown } | null)?.error ?? {}) as Record<string, unknown>
}

function assertNotBusy(code: unknown): void {
  if (busyCodes.has(code as number)) throw new RpcUnreachable(`the node is busy (code ${code})`)
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : 'a malformed URL'
}
