import { type Clock, systemClock } from '../ports/clock.ts'
import { type Log, silentLog } from '../ports/log.ts'
import {
  assertNotBusy,
  errorOf,
  type LooseAnswer,
  type RpcAnswer,
  readAnswer,
  readLoosely,
} from './answer.ts'
import { type AskNode, BatchRefused, post, RpcLate } from './post.ts'
import { RpcUnreachable } from './rpcError.ts'
import type { ServedChain } from './servedChain.ts'

/** How often a node must say again which chain it serves; a proxy can change what stands behind it. */
const CHAIN_RECHECK_MS = 60_000
/** How often the first node is asked whether it is well again, while another one stands in for it. */
const RETURN_MS = 60_000
/** Items in one HTTP request; providers cap batches, most of them at 100. */
const MAX_BATCH_ITEMS = 50
/** Requests at once to a node that takes no batches. */
const MAX_SINGLE_REQUESTS = 8
/** HTTP requests at once for calls that have nothing to do with each other. */
const MAX_BATCHES_AT_ONCE = 2
/** Longest answer that is read, unless told otherwise: far above any that is asked for. */
const MAX_ANSWER_BYTES = 4_000_000

/** Of a call that its caller's signal ends. */
const LONGEST_MS = 600_000

const never = Number.NEGATIVE_INFINITY

export interface RpcOptions {
  /** Asked in this order; the next one only while one does not answer properly. */
  readonly urls: readonly string[]
  /** Every answer of a node that serves another chain is thrown away. Without it nobody asks. */
  readonly chain?: ServedChain
  /**
   * Whether a node is asked for its chain along with the first calls, in one batch, so that knowing it costs no round
   * trip. Default: before them.
   */
  readonly isChainAskedAlong?: boolean
  /** Sends the requests. */
  readonly ask: AskNode
  /** Limit of one HTTP request, in milliseconds. */
  readonly timeoutMs: number
  readonly maxAnswerBytes?: number
  /** Whether any call may be sent twice: then one that finds its connection broken goes out once more. Default false. */
  readonly isRepeatable?: boolean
  readonly clock?: Clock
  readonly log?: Log
}

export interface RpcCall {
  readonly method: string
  readonly params: readonly unknown[]
}

/** JSON-RPC over HTTP to one chain, through the first of several nodes that answers and serves that chain. */
export interface Rpc {
  /** @throws {RpcRefused} the node's JSON-RPC error. @throws {RpcUnreachable} when no node answers. */
  call(method: string, ...params: unknown[]): Promise<unknown>
  /**
   * A call whose answer the node may keep back for as long, in milliseconds up to the limit of every request, or until
   * the signal, which then is the only limit. After that it is given up, and no other node is asked: the node is well,
   * and its answer is not needed any more.
   * @throws as {@link Rpc.call}
   */
  callWithin(limit: number | AbortSignal, method: string, ...params: unknown[]): Promise<unknown>
  /**
   * All calls to one node in one request, answers in order; nothing is sent for none.
   * @throws {RpcUnreachable} when no node answers.
   */
  batch(calls: readonly RpcCall[]): Promise<RpcAnswer[]>
  /**
   * Calls that have nothing to do with each other, any number of them, in as few requests as the node takes; answers in
   * order. One that gets no answer, or none that can be read, spoils none of the others. Never rejects.
   */
  many(calls: readonly RpcCall[]): Promise<LooseAnswer[]>
}

/** Makes the client; nothing is sent before the first call. */
export function createRpc(options: RpcOptions): Rpc {
  const { timeoutMs, chain, clock = systemClock, log = silentLog } = options
  const {
    ask: askNode,
    maxAnswerBytes = MAX_ANSWER_BYTES,
    isRepeatable = false,
    isChainAskedAlong = false,
  } = options
  const nodes = options.urls.map(
    (url): Node => ({ url, host: hostOf(url), checkedAtMs: never, checking: undefined, takesBatches: true }),
  )
  let preferred = 0
  /** When the first node was last found not to answer. */
  let leftAtMs = never
  let lastId = 0

  const send = async (
    node: Node,
    calls: readonly RpcCall[],
    limit?: Limit,
    read: (item: unknown) => LooseAnswer = readAnswer,
  ): Promise<LooseAnswer[]> => {
    if (calls.length === 0) return []
    if (calls.length > 1 && !node.takesBatches) return sendSingly(node, calls, limit, read)
    const requests = calls.map((call) => ({ jsonrpc: '2.0', id: ++lastId, ...call }))
    const { endMs, signal } = limit ?? { endMs: performance.now() + timeoutMs }
    let body: unknown
    try {
      body = await post(node.url, requests.length === 1 ? requests[0] : requests, {
        ask: askNode,
        maxAnswerBytes,
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
      log.info({ node: node.host }, 'the node does not take JSON-RPC batches; calls go one by one')
      return sendSingly(node, calls, limit, read)
    }
    if (requests.length === 1) return [read(Array.isArray(body) ? body[0] : body)]
    // Batches may be answered in any order (JSON-RPC 2.0, section 6).
    const items: unknown[] = Array.isArray(body) ? body : [body]
    const byId = new Map(items.map((item) => [(item as { id?: unknown } | null)?.id, item]))
    if (requests.every(({ id }) => byId.has(id))) return requests.map(({ id }) => read(byId.get(id)))
    // One error for all of them, alone or in a list (geth: "batch too large"). A node that is busy says so in the same
    // form; more requests would not help it.
    for (const item of items) assertNotBusy(errorOf(item)?.code)
    node.takesBatches = false
    log.info({ node: node.host }, 'the node does not take JSON-RPC batches; calls go one by one')
    return sendSingly(node, calls, limit, read)
  }

  /** Some of many calls: where each is read for itself, what fails here fails for these only. */
  const sendPart = (
    node: Node,
    calls: readonly RpcCall[],
    limit: Limit | undefined,
    read: (item: unknown) => LooseAnswer,
  ): Promise<LooseAnswer[]> =>
    send(node, calls, limit, read).catch((error: unknown) => {
      if (read === readAnswer || !(error instanceof RpcUnreachable)) throw error
      return calls.map(() => ({ ok: false, error }))
    })

  const sendSingly = async (
    node: Node,
    calls: readonly RpcCall[],
    limit: Limit | undefined,
    read: (item: unknown) => LooseAnswer,
  ): Promise<LooseAnswer[]> => {
    const answers: LooseAnswer[] = []
    for (let i = 0; i < calls.length; i += MAX_SINGLE_REQUESTS) {
      const few = calls.slice(i, i + MAX_SINGLE_REQUESTS)
      answers.push(...(await Promise.all(few.map((call) => sendPart(node, [call], limit, read)))).flat())
    }
    return answers
  }

  const ask = async (
    node: Node,
    calls: readonly RpcCall[],
    limit?: Limit,
    read?: (item: unknown) => LooseAnswer,
  ): Promise<LooseAnswer[]> => {
    if (chain === undefined || Math.abs(clock.now() - node.checkedAtMs) < CHAIN_RECHECK_MS) {
      return send(node, calls, limit, read)
    }
    if (isChainAskedAlong) {
      const [served, ...answers] = await send(node, [questionFor(chain), ...calls], limit, read)
      believe(node, chain, served!)
      return answers
    }
    node.checking ??= send(node, [questionFor(chain)])
      .then(([served]) => believe(node, chain, served!))
      .finally(() => {
        node.checking = undefined
      })
    await node.checking
    return send(node, calls, limit, read)
  }

  const believe = (node: Node, { expected, read }: ServedChain, answer: LooseAnswer): void => {
    const served = answer.ok ? read(answer.result) : 'none that it names'
    if (served !== expected) throw new RpcUnreachable(`it serves chain ${served}, expected ${expected}`)
    node.checkedAtMs = clock.now()
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

  const batchOnce = async (
    calls: readonly RpcCall[],
    limit?: Limit,
    read?: (item: unknown) => LooseAnswer,
  ): Promise<LooseAnswer[]> => {
    if (preferred !== 0 && Math.abs(clock.now() - leftAtMs) >= RETURN_MS) tryToReturn()
    const faults: string[] = []
    const asked = preferred
    for (let i = 0; i < nodes.length; i++) {
      const index = (asked + i) % nodes.length
      const node = nodes[index]!
      try {
        const answers = await ask(node, calls, limit, read)
        const nothing = answers.every((answer) => !answer.ok && answer.error instanceof RpcUnreachable)
        if (nothing && calls.length > 0) throw (answers[0] as { error: RpcUnreachable }).error
        if (index !== asked) preferred = index
        return answers
      } catch (error) {
        if (limit !== undefined && isOver(limit, error))
          throw new RpcUnreachable(`${node.host} kept its answer back for too long`)
        // A node that failed must name its chain again before it is believed.
        node.checkedAtMs = never
        if (index === 0) leftAtMs = clock.now()
        const fault = `${node.host}: ${error instanceof Error ? error.message : 'failed'}`
        faults.push(fault)
        log.debug({ method: calls[0]?.method, fault }, 'a node did not answer properly')
      }
    }
    const what = calls[0]?.method ?? chain?.method
    throw new RpcUnreachable(`No node answered ${what}: ${faults.join('; ')}`)
  }

  const batch = async (calls: readonly RpcCall[]): Promise<RpcAnswer[]> => {
    if (calls.length === 0) return []
    if (calls.length <= MAX_BATCH_ITEMS) return (await batchOnce(calls)) as RpcAnswer[]
    const answers: RpcAnswer[] = []
    for (let i = 0; i < calls.length; i += MAX_BATCH_ITEMS) {
      answers.push(...((await batchOnce(calls.slice(i, i + MAX_BATCH_ITEMS))) as RpcAnswer[]))
    }
    return answers
  }

  const many = async (calls: readonly RpcCall[]): Promise<LooseAnswer[]> => {
    const pages: RpcCall[][] = []
    for (let i = 0; i < calls.length; i += MAX_BATCH_ITEMS) pages.push(calls.slice(i, i + MAX_BATCH_ITEMS))
    const answers: LooseAnswer[][] = []
    let next = 0
    const takeNext = async (): Promise<void> => {
      for (let page = next++; page < pages.length; page = next++) {
        answers[page] = await batchOnce(pages[page]!, undefined, readLoosely).catch((error: unknown) =>
          pages[page]!.map(() => ({ ok: false, error: error as RpcUnreachable })),
        )
      }
    }
    await Promise.all(Array.from({ length: MAX_BATCHES_AT_ONCE }, takeNext))
    return answers.flat()
  }

  const callOne = async (limit: Limit | undefined, call: RpcCall): Promise<unknown> => {
    const [answer] = await batchOnce([call], limit)
    if (!answer!.ok) throw answer!.error
    return answer!.result
  }

  return {
    batch,
    many,
    call: (method, ...params) => callOne(undefined, { method, params }),
    callWithin: (limit, method, ...params) => callOne(limitOf(limit, timeoutMs), { method, params }),
  }
}

/** The only limit of a call, its caller's own. */
interface Limit {
  /** By `performance.now()`. */
  readonly endMs: number
  readonly signal?: AbortSignal
}

const limitOf = (limit: number | AbortSignal, timeoutMs: number): Limit =>
  typeof limit === 'number'
    ? { endMs: performance.now() + Math.min(limit, timeoutMs) }
    : { endMs: performance.now() + LONGEST_MS, signal: limit }

/** Timers can be early by what the loop has left out of a millisecond: an answer that was late says it itself. */
const isOver = ({ endMs, signal }: Limit, error: unknown): boolean =>
  signal === undefined ? error instanceof RpcLate || performance.now() >= endMs : signal.aborted

const questionFor = ({ method }: ServedChain): RpcCall => ({ method, params: [] })

interface Node {
  readonly url: string
  /** Without path and query: these hold the provider's key. */
  readonly host: string
  checkedAtMs: number
  /** The question for its chain that is under way on its own; all calls wait for the same one. */
  checking: Promise<void> | undefined
  takesBatches: boolean
}

/** A node's name in messages: path and query of its URL hold the provider's key. */
const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : 'a malformed URL')
