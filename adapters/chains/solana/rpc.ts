import { type Clock, systemClock } from '../../../core/ports/clock.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import { RpcRefused, RpcUnreachable, rpcCodes } from './rpcError.ts'

/** How often a node must say again which cluster it serves; a proxy can change what stands behind it. */
const clusterRecheckMs = 60_000
/** Far above any answer that is asked for here. */
const maxAnswerBytes = 4_000_000

export interface RpcOptions {
  /** Asked in this order; the next one only when one does not answer properly. */
  readonly urls: readonly string[]
  /** First 32 characters of the cluster's genesis hash, as in its CAIP-2 id. A node of another cluster is not believed. */
  readonly genesis: string
  /** Limit of one HTTP request, in milliseconds. */
  readonly timeoutMs: number
  readonly clock?: Clock
  readonly log?: Log
}

/**
 * JSON-RPC over HTTP to one cluster, through the first of several nodes that answers and serves that cluster. A call may
 * reach more than one node: reads change nothing, and the same signed transaction lands once.
 */
export interface Rpc {
  /** @throws {RpcRefused} the node's JSON-RPC error. @throws {RpcUnreachable} when no node answers properly. */
  call<T>(method: string, ...params: unknown[]): Promise<T>
}

/** What most read methods answer: a value, and the slot that it was read at. */
export interface WithContext<T> {
  readonly context: { readonly slot: number }
  readonly value: T
}

interface Node {
  readonly url: string
  /** Without path and query: these may hold the provider's key. */
  readonly host: string
  checkedAtMs: number
  /** The question for its cluster that is under way; all calls wait for the same one. */
  checking: Promise<void> | undefined
}

/** Makes the client; nothing is sent before the first call. */
export function createRpc(options: RpcOptions): Rpc {
  const { timeoutMs, genesis, clock = systemClock, log = silentLog } = options
  const nodes = options.urls.map(
    (url): Node => ({
      url,
      host: new URL(url).host,
      checkedAtMs: Number.NEGATIVE_INFINITY,
      checking: undefined,
    }),
  )
  let preferred = 0
  let lastId = 0

  const ask = async (node: Node, method: string, params: unknown[]): Promise<unknown> => {
    const request = JSON.stringify({ jsonrpc: '2.0', id: ++lastId, method, params })
    return readAnswer(await post(node, request, timeoutMs), node)
  }
  const checkCluster = async (node: Node) => {
    const hash = await ask(node, 'getGenesisHash', [])
    if (typeof hash !== 'string' || hash.slice(0, 32) !== genesis) {
      throw new RpcUnreachable(
        `${node.host} serves the cluster ${String(hash).slice(0, 44)}, expected ${genesis}…`,
      )
    }
    node.checkedAtMs = clock.now()
  }
  const assertCluster = async (node: Node) => {
    if (Math.abs(clock.now() - node.checkedAtMs) < clusterRecheckMs) return
    node.checking ??= checkCluster(node).finally(() => {
      node.checking = undefined
    })
    await node.checking
  }

  return {
    async call<T>(method: string, ...params: unknown[]): Promise<T> {
      const faults: string[] = []
      const first = preferred
      for (let i = 0; i < nodes.length; i++) {
        const index = (first + i) % nodes.length
        const node = nodes[index]!
        try {
          await assertCluster(node)
          const result = await ask(node, method, params)
          preferred = index
          return result as T
        } catch (error) {
          if (error instanceof RpcRefused) throw error
          // A node that failed must name its cluster again before it is believed.
          node.checkedAtMs = Number.NEGATIVE_INFINITY
          faults.push(error instanceof Error ? error.message : 'failed')
          log.debug(
            { node: node.host, method, fault: faults.at(-1) },
            'a Solana node did not answer properly',
          )
        }
      }
      throw new RpcUnreachable(`No node answered ${method}: ${faults.join('; ')}`)
    },
  }
}

async function post(node: Node, body: string, timeoutMs: number, isSecondTry = false): Promise<unknown> {
  try {
    const response = await fetch(node.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    })
    if (response.status === 429 || response.status >= 500) {
      await response.body?.cancel()
      throw new RpcUnreachable(`${node.host} answered HTTP ${response.status}`)
    }
    return JSON.parse(await readText(response, node))
  } catch (error) {
    if (error instanceof RpcUnreachable) throw error
    const cause = (error instanceof Error ? (error.cause ?? error) : {}) as {
      code?: string
      message?: string
    }
    // A keep-alive connection that the node had closed already.
    if (!isSecondTry && brokenConnection.has(cause.code ?? '')) return post(node, body, timeoutMs, true)
    throw new RpcUnreachable(`${node.host}: ${cause.code ?? cause.message ?? 'failed'}`)
  }
}

const brokenConnection = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

async function readText(response: Response, node: Node): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop cancels the body.
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxAnswerBytes)
      throw new RpcUnreachable(`${node.host} answered more than ${maxAnswerBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function readAnswer(answer: unknown, node: Node): unknown {
  if (typeof answer === 'object' && answer !== null) {
    if ('error' in answer && typeof answer.error === 'object' && answer.error !== null) {
      const { code, message, data } = answer.error as { code?: unknown; message?: unknown; data?: unknown }
      const rpcCode = typeof code === 'number' ? code : 0
      const words = String(message ?? 'no message').slice(0, 300)
      if (rpcCode !== rpcCodes.nodeUnhealthy && rpcCode !== rpcCodes.minContextSlotNotReached) {
        throw new RpcRefused(rpcCode, words, data)
      }
      throw new RpcUnreachable(`${node.host}: ${words}`)
    }
    if ('result' in answer) return answer.result
  }
  throw new RpcUnreachable(`${node.host} answered something that is no JSON-RPC answer`)
}
