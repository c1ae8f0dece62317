import { familyOf, type NetworkId } from '../domain/network.ts'
import { type Clock, systemClock } from '../ports/clock.ts'
import { type Log, silentLog } from '../ports/log.ts'
import {
  assertNotBusy,
  BatchRefused,
  type CallNode,
  errorOf,
  type LooseResponse,
  post,
  RpcLate,
  type RpcResponse,
  RpcUnreachable,
  readLoosely,
  readResponse,
} from './post.ts'

/** How often a node must report its chain again, in ms, because a proxy can switch to another chain. */
const CHAIN_RECHECK_MS = 60_000
/** How often the preferred node is checked while another node replaces it, in ms. */
const RETURN_MS = 60_000
/** Maximum calls in one HTTP request. Most providers limit batches to 100. */
const MAX_BATCH_ITEMS = 50
/** Maximum concurrent requests to a node without support for batches. */
const MAX_SINGLE_REQUESTS = 8
/** Maximum concurrent HTTP requests for independent calls. */
const MAX_BATCHES_AT_ONCE = 2
/** Default maximum size of a response, in bytes. It is far above any response that the gateway requests. */
const MAX_ANSWER_BYTES = 4_000_000

/** Time limit of a call whose caller passes a signal, in ms. */
const LONGEST_MS = 600_000

const never = Number.NEGATIVE_INFINITY

export interface RpcOptions {
  /** URLs of the nodes in the order in which they are tried. A node is used only while all earlier ones fail. */
  readonly urls: readonly string[]
  /** The expected chain. If a node serves another chain, its responses are discarded. If absent, the chain is not checked. */
  readonly chain?: ServedChain
  /**
   * True to request a node's chain in one batch with the first calls, which saves a round trip. If false or absent, before these
   * calls.
   */
  readonly isChainIdBatched?: boolean
  /** Sends the requests. */
  readonly sendRequest: CallNode
  /** Time limit of one HTTP request, in ms. */
  readonly timeoutMs: number
  readonly maxResponseBytes?: number
  /** True if any call may be sent twice. If a connection breaks, the call is then sent once more. False if absent. */
  readonly isRepeatable?: boolean
  readonly clock?: Clock
  readonly log?: Log
}

export interface RpcCall {
  readonly method: string
  readonly params: readonly unknown[]
}

/** JSON-RPC over HTTP to one chain, through the first of several nodes that responds and serves that chain. */
export interface Rpc {
  /**
   * @throws {RpcRefused} the node's JSON-RPC error
   * @throws {RpcUnreachable} if no node responds
   */
  call(method: string, ...params: unknown[]): Promise<unknown>
  /**
   * Makes a call whose response the node may delay. `limit` is in ms, up to the limit of every request. It may also be a signal,
   * which is then the only limit. After the limit the call fails, and no other node is tried, because the node is healthy and its
   * response is no longer needed.
   *
   * @throws as {@link Rpc.call}
   */
  callWithin(limit: number | AbortSignal, method: string, ...params: unknown[]): Promise<unknown>
  /**
   * Sends all calls to one node in one request. Responses are in order. Sends nothing if the list is empty.
   *
   * @throws {RpcUnreachable} if no node responds
   */
  batch(calls: readonly RpcCall[]): Promise<RpcResponse[]>
  /**
   * Sends any number of independent calls, in as few requests as the node accepts. Responses are in order. If a call gets no
   * readable response, the others are not affected. Never rejects.
   */
  many(calls: readonly RpcCall[]): Promise<LooseResponse[]>
}

/** Makes the client. Nothing is sent before the first call. */
export function createRpc(options: RpcOptions): Rpc {
  const { timeoutMs, chain, clock = systemClock, log = silentLog } = options
  const {
    sendRequest: callNode,
    maxResponseBytes = MAX_ANSWER_BYTES,
    isRepeatable = false,
    isChainIdBatched = false,
  } = options
  const nodes = options.urls.map(
    (url): Node => ({ url, host: hostOf(url), checkedAtMs: never, checking: undefined, takesBatches: true }),
  )
  let preferred = 0
  /** When the preferred node last failed to respond. */
  let leftAtMs = never
  let lastId = 0

  const send = async (
    node: Node,
    calls: readonly RpcCall[],
    limit?: Limit,
    read: (item: unknown) => LooseResponse = readResponse,
  ): Promise<LooseResponse[]> => {
    if (calls.length === 0) return []
    if (calls.length > 1 && !node.takesBatches) return sendSingly(node, calls, limit, read)
    const requests = calls.map((call) => ({ jsonrpc: '2.0', id: ++lastId, ...call }))
    const { endMs, signal } = limit ?? { endMs: performance.now() + timeoutMs }
    let body: unknown
    try {
      body = await post(node.url, requests.length === 1 ? requests[0] : requests, {
        sendRequest: callNode,
        maxResponseBytes,
        isRepeatable,
        endMs,
        signal,
      })
    } catch (error) {
      if (calls.length === 1 || !(error instanceof BatchRefused)) throw error
      if (error.isTooLarge) {
        const half = calls.length >> 1
        const first = await sendPart(node, calls.slice(0, half), limit, read)
        return [...first, ...(await sendPart(node, calls.slice(half), limit, read))]
      }
      node.takesBatches = false
      log.info({ node: node.host }, 'the node does not support JSON-RPC batches; calls are sent one by one')
      return sendSingly(node, calls, limit, read)
    }
    if (requests.length === 1) return [read(Array.isArray(body) ? body[0] : body)]
    // The responses of a batch may be in any order (JSON-RPC 2.0, section 6).
    const items: unknown[] = Array.isArray(body) ? body : [body]
    const byId = new Map(items.map((item) => [(item as { id?: unknown } | null)?.id, item]))
    if (requests.every(({ id }) => byId.has(id))) return requests.map(({ id }) => read(byId.get(id)))
    // The response is one error for the whole batch, alone or in a list (geth: "batch too large"). A busy node responds in the same
    // form, so that case is checked first, because more requests would not help.
    for (const item of items) assertNotBusy(errorOf(item)?.code)
    node.takesBatches = false
    log.info({ node: node.host }, 'the node does not support JSON-RPC batches; calls are sent one by one')
    return sendSingly(node, calls, limit, read)
  }

  /** Sends some of many independent calls. An error fails only these calls. */
  const sendPart = (
    node: Node,
    calls: readonly RpcCall[],
    limit: Limit | undefined,
    read: (item: unknown) => LooseResponse,
  ): Promise<LooseResponse[]> =>
    send(node, calls, limit, read).catch((error: unknown) => {
      if (read === readResponse || !(error instanceof RpcUnreachable)) throw error
      return calls.map(() => ({ ok: false, error }))
    })

  const sendSingly = async (
    node: Node,
    calls: readonly RpcCall[],
    limit: Limit | undefined,
    read: (item: unknown) => LooseResponse,
  ): Promise<LooseResponse[]> => {
    const responses: LooseResponse[] = []
    for (let i = 0; i < calls.length; i += MAX_SINGLE_REQUESTS) {
      const few = calls.slice(i, i + MAX_SINGLE_REQUESTS)
      responses.push(...(await Promise.all(few.map((call) => sendPart(node, [call], limit, read)))).flat())
    }
    return responses
  }

  const sendRequest = async (
    node: Node,
    calls: readonly RpcCall[],
    limit?: Limit,
    read?: (item: unknown) => LooseResponse,
  ): Promise<LooseResponse[]> => {
    if (chain === undefined || Math.abs(clock.now() - node.checkedAtMs) < CHAIN_RECHECK_MS) {
      return send(node, calls, limit, read)
    }
    if (isChainIdBatched) {
      const [served, ...responses] = await send(node, [questionFor(chain), ...calls], limit, read)
      trust(node, chain, served!)
      return responses
    }
    node.checking ??= send(node, [questionFor(chain)])
      .then(([served]) => trust(node, chain, served!))
      .finally(() => {
        node.checking = undefined
      })
    await node.checking
    return send(node, calls, limit, read)
  }

  const trust = (node: Node, { expected, read }: ServedChain, response: LooseResponse): void => {
    const served = response.ok ? read(response.result) : 'none that it names'
    if (served !== expected) throw new RpcUnreachable(`it serves chain ${served}, expected ${expected}`)
    node.checkedAtMs = clock.now()
  }

  /** Requests the chain of the preferred node. No call waits for this, because that node may still be down. */
  const tryToReturn = (): void => {
    leftAtMs = clock.now()
    const [first] = nodes
    void sendRequest(first!, []).then(
      () => {
        preferred = 0
        log.info({ node: first!.host }, 'the preferred node responds again')
      },
      () => {},
    )
  }

  const batchOnce = async (
    calls: readonly RpcCall[],
    limit?: Limit,
    read?: (item: unknown) => LooseResponse,
  ): Promise<LooseResponse[]> => {
    if (preferred !== 0 && Math.abs(clock.now() - leftAtMs) >= RETURN_MS) tryToReturn()
    const faults: string[] = []
    const asked = preferred
    for (let i = 0; i < nodes.length; i++) {
      const index = (asked + i) % nodes.length
      const node = nodes[index]!
      try {
        const responses = await sendRequest(node, calls, limit, read)
        const nothing = responses.every(
          (response) => !response.ok && response.error instanceof RpcUnreachable,
        )
        if (nothing && calls.length > 0) throw (responses[0] as { error: RpcUnreachable }).error
        if (index !== asked) preferred = index
        return responses
      } catch (error) {
        if (limit !== undefined && isOver(limit, error))
          throw new RpcUnreachable(`${node.host} delayed its response for too long`)
        // Before its responses count again, a node that failed must report its chain again.
        node.checkedAtMs = never
        if (index === 0) leftAtMs = clock.now()
        const fault = `${node.host}: ${error instanceof Error ? error.message : 'failed'}`
        faults.push(fault)
        log.debug({ method: calls[0]?.method, fault }, 'a node did not respond properly')
      }
    }
    const what = calls[0]?.method ?? chain?.method
    throw new RpcUnreachable(`No node responded to ${what}: ${faults.join('; ')}`)
  }

  const batch = async (calls: readonly RpcCall[]): Promise<RpcResponse[]> => {
    if (calls.length === 0) return []
    if (calls.length <= MAX_BATCH_ITEMS) return (await batchOnce(calls)) as RpcResponse[]
    const responses: RpcResponse[] = []
    for (let i = 0; i < calls.length; i += MAX_BATCH_ITEMS) {
      responses.push(...((await batchOnce(calls.slice(i, i + MAX_BATCH_ITEMS))) as RpcResponse[]))
    }
    return responses
  }

  const many = async (calls: readonly RpcCall[]): Promise<LooseResponse[]> => {
    const pages: RpcCall[][] = []
    for (let i = 0; i < calls.length; i += MAX_BATCH_ITEMS) pages.push(calls.slice(i, i + MAX_BATCH_ITEMS))
    const responses: LooseResponse[][] = []
    let next = 0
    const takeNext = async (): Promise<void> => {
      for (let page = next++; page < pages.length; page = next++) {
        responses[page] = await batchOnce(pages[page]!, undefined, readLoosely).catch((error: unknown) =>
          pages[page]!.map(() => ({ ok: false, error: error as RpcUnreachable })),
        )
      }
    }
    await Promise.all(Array.from({ length: MAX_BATCHES_AT_ONCE }, takeNext))
    return responses.flat()
  }

  const callOne = async (limit: Limit | undefined, call: RpcCall): Promise<unknown> => {
    const [response] = await batchOnce([call], limit)
    if (!response!.ok) throw response!.error
    return response!.result
  }

  return {
    batch,
    many,
    call: (method, ...params) => callOne(undefined, { method, params }),
    callWithin: (limit, method, ...params) => callOne(limitOf(limit, timeoutMs), { method, params }),
  }
}

/** The time limit that a caller sets for its own call. */
interface Limit {
  /** By `performance.now()`. */
  readonly endMs: number
  readonly signal?: AbortSignal
}

const limitOf = (limit: number | AbortSignal, timeoutMs: number): Limit =>
  typeof limit === 'number'
    ? { endMs: performance.now() + Math.min(limit, timeoutMs) }
    : { endMs: performance.now() + LONGEST_MS, signal: limit }

/** Whether the limit has passed. A timer can be early by a fraction of a ms, so a late response is also recognized by its error. */
const isOver = ({ endMs, signal }: Limit, error: unknown): boolean =>
  signal === undefined ? error instanceof RpcLate || performance.now() >= endMs : signal.aborted

const questionFor = ({ method }: ServedChain): RpcCall => ({ method, params: [] })

interface Node {
  readonly url: string
  /** The host without path and query, which may contain the provider's key. */
  readonly host: string
  checkedAtMs: number
  /** The running request for the node's chain. All calls share it. */
  checking: Promise<void> | undefined
  takesBatches: boolean
}

/** A node's name in messages. Path and query of its URL are left out, because they may contain the provider's key. */
const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : 'a malformed URL')

/** The chain that a node must serve. */
interface ServedChain {
  /** The method that returns the chain, which is `eth_chainId` or `getGenesisHash`. */
  readonly method: string
  /** The expected result. */
  readonly expected: string
  readonly read: (response: unknown) => string
}

/**
 * How a node of this network reports its chain, which is the chain id on EVM and the start of the genesis hash on Solana (CAIP-2).
 */
export function servedChain(network: NetworkId): ServedChain {
  const expected = network.slice(network.indexOf(':') + 1)
  if (familyOf(network) === 'solana')
    return { method: 'getGenesisHash', expected, read: (response) => String(response).slice(0, 32) }
  return { method: 'eth_chainId', expected, read: (response) => String(Number(response)) }
}
