import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * What goes wrong with a call.
 *
 * - `delay`: the call is forwarded after `ms` milliseconds.
 * - `hold`: the call waits, not forwarded, until the rule is lifted (`clear`, or the function that `add` returned).
 * - `drop-answer`: the node gets the call and acts on it; the client's connection ends without an answer. With
 *   `sendTransaction` or `eth_sendRawTransaction` this is the broadcast whose outcome is unknown.
 * - `refuse`: the connection ends, and the node never receives the call.
 * - `http-status`: answered with this status and nothing else, for example 429 with `retryAfterSeconds`, or 503.
 * - `error`: answered with a JSON-RPC error.
 * - `result`: answered with this result, for example another chain's `eth_chainId`, or a function of the real one,
 *   for example an older block number.
 * - `stale`: answered with what the node answered to the first such call, ever after.
 */
export type RpcFault =
  | { kind: 'delay'; ms: number }
  | { kind: 'hold' }
  | { kind: 'drop-answer' }
  | { kind: 'refuse' }
  | { kind: 'http-status'; status: number; retryAfterSeconds?: number }
  | { kind: 'error'; code: number; message: string; data?: unknown }
  | { kind: 'result'; result: unknown | ((real: unknown) => unknown) }
  | { kind: 'stale' }

/** A JSON-RPC proxy that misbehaves on request. */
export type FaultyRpc = {
  /** Point the client here instead of at the node. */
  url: string
  /**
   * Adds a rule for a method (`*` for every one); the newest that matches applies. `eth_sendRawTransaction` means
   * `eth_sendRawTransactionSync` as well, here and in the counters. The latter also waits for the receipt: a rule for
   * `eth_getTransactionReceipt` spoils its answer, once the node has the transaction.
   *
   * @param times how many calls it spoils before it is used up; default without end.
   * @returns lifts the rule.
   */
  add(method: string, fault: RpcFault, times?: number): () => void
  /** Lifts every rule; calls on hold go on to the node. */
  clear(): void
  /** Calls that came in, of one method or of all. */
  calls(method?: string): number
  /** Calls that the node was given. */
  forwarded(method?: string): number
  /** Sets both counters to zero. */
  resetCounters(): void
  /** Calls back for each call that comes in, with what it says. */
  onCall(listener: (method: string, params: readonly unknown[]) => void): void
  /** Resolves when so many calls of a method have come in since the counters were last reset. */
  whenCalled(method: string, times?: number): Promise<void>
  close(): Promise<void>
}

type RpcCall = { id?: unknown; method?: string; params?: unknown }
type RpcResponse = { jsonrpc?: string; id?: unknown; result?: unknown; error?: unknown }
type Rule = {
  method: string
  fault: RpcFault
  left: number
  lifted: PromiseWithResolvers<void>
  kept?: { result: unknown }
}
type Waiting = { method: string; times: number; resolve: () => void }
/** A fault of the connection, not of one answer: it spoils the whole HTTP answer, a batch included. */
type BrokenConnection = { end: 'destroy' } | { end: 'status'; status: number; retryAfterSeconds?: number }

/**
 * Starts a proxy in front of a node's HTTP JSON-RPC, for tests of what a client does when a node is slow, wrong,
 * overloaded, or silent after it has acted. It knows no chain: EVM and Solana alike. WebSocket is not proxied.
 *
 * @example
 * const rpc = await startFaultyRpc(chain.rpcUrl)
 * rpc.add('eth_sendRawTransaction', { kind: 'drop-answer' }, 1)
 */
export async function startFaultyRpc(upstreamUrl: string): Promise<FaultyRpc> {
  const rules: Rule[] = []
  const agent = new Agent({ keepAlive: true })
  const received = new Map<string, number>()
  const passedOn = new Map<string, number>()
  const waiting = new Set<Waiting>()
  const listeners: ((method: string, params: readonly unknown[]) => void)[] = []

  const lift = (rule: Rule) => {
    const index = rules.indexOf(rule)
    if (index >= 0) rules.splice(index, 1)
    rule.lifted.resolve()
  }
  const take = (method: string): Rule | undefined => {
    const rule = rules.findLast((one) => one.left > 0 && (one.method === '*' || isCalled(one.method, method)))
    if (rule !== undefined) rule.left -= 1
    return rule
  }
  const countIn = (method: string) => {
    received.set(method, (received.get(method) ?? 0) + 1)
    for (const one of waiting) if (count(received, one.method) >= one.times) end(one)
  }
  const end = (one: Waiting) => {
    waiting.delete(one)
    one.resolve()
  }
  const forward = async (call: RpcCall, counts = true): Promise<RpcResponse> => {
    const { method = '' } = call
    if (counts) passedOn.set(method, (passedOn.get(method) ?? 0) + 1)
    return ask(upstreamUrl, agent, call)
  }

  /** A broadcast that waits for the receipt: the look for it can have a fault of its own. */
  const broadcastAndPoll = async (call: RpcCall): Promise<RpcResponse | BrokenConnection> => {
    const response = await forward(call)
    const rule = take(pollForReceipt)
    for (const one of waiting) if (one.method === pollForReceipt) end(one)
    if (rule === undefined) return response
    if (rule.fault.kind !== 'hold' && rule.fault.kind !== 'delay') return { end: 'destroy' }
    await (rule.fault.kind === 'hold' ? rule.lifted.promise : delay(rule.fault.ms, rule.lifted.promise))
    return response
  }

  const answerCall = async (call: RpcCall): Promise<RpcResponse | BrokenConnection> => {
    const { method = '', id = null } = call
    const rule = take(method)
    // A client that checks whether the method exists sends no transaction.
    const isProbe = method === broadcastSync && (call.params as unknown[])[0] === '0x'
    if (!isProbe) countIn(method)
    for (const hear of listeners) hear(method, (call.params ?? []) as unknown[])
    if (rule === undefined) {
      return method === broadcastSync && !isProbe ? broadcastAndPoll(call) : forward(call, !isProbe)
    }
    const { fault } = rule
    switch (fault.kind) {
      case 'delay':
        await delay(fault.ms, rule.lifted.promise)
        return forward(call)
      case 'hold':
        await rule.lifted.promise
        return forward(call)
      case 'drop-answer':
        await forward(call)
        return { end: 'destroy' }
      case 'refuse':
        return { end: 'destroy' }
      case 'http-status': {
        const { status, retryAfterSeconds } = fault
        return { end: 'status', status, ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) }
      }
      case 'error': {
        const { code, message, data } = fault
        return envelope(id, { error: { code, message, ...(data === undefined ? {} : { data }) } })
      }
      case 'result':
        if (typeof fault.result !== 'function') return envelope(id, { result: fault.result })
        return envelope(id, { result: fault.result((await forward(call)).result) })
      case 'stale':
        rule.kept ??= { result: (await forward(call)).result }
        return envelope(id, rule.kept)
    }
  }

  const answerHttp = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const asked = JSON.parse(Buffer.concat(chunks).toString()) as RpcCall | RpcCall[]
    const responses = await Promise.all([asked].flat().map(answerCall))
    for (const answer of responses) {
      if (!('end' in answer)) continue
      if (answer.end === 'destroy') return response.destroy()
      if (answer.retryAfterSeconds !== undefined) response.setHeader('retry-after', answer.retryAfterSeconds)
      return response.writeHead(answer.status).end()
    }
    response.setHeader('content-type', 'application/json')
    return response.end(JSON.stringify(Array.isArray(asked) ? responses : responses[0]))
  }

  const server = createServer((request, response) => {
    // A node that cannot be reached is one more broken connection to the client.
    answerHttp(request, response).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clear = () => {
    for (const rule of [...rules]) lift(rule)
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    add(method, fault, times = Number.POSITIVE_INFINITY) {
      const rule: Rule = { method, fault, left: times, lifted: Promise.withResolvers() }
      rules.push(rule)
      return () => lift(rule)
    },
    clear,
    calls: (method) => count(received, method),
    forwarded: (method) => count(passedOn, method),
    resetCounters() {
      received.clear()
      passedOn.clear()
    },
    onCall: (listener) => void listeners.push(listener),
    async whenCalled(method, times = 1) {
      if (count(received, method) >= times) return
      await new Promise<void>((resolve) => waiting.add({ method, times, resolve }))
    },
    async close() {
      clear()
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      agent.destroy()
      await closed
    },
  }
}

/** Asks the node, by the client that costs least: a soak test shares its processor with this. */
function ask(url: string, agent: Agent, call: RpcCall): Promise<RpcResponse> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const asked = request(url, { method: 'POST', agent, headers }, async (response) => {
      try {
        const chunks: Buffer[] = []
        for await (const chunk of response) chunks.push(chunk as Buffer)
        resolve(JSON.parse(Buffer.concat(chunks).toString()) as RpcResponse)
      } catch (error) {
        reject(error as Error)
      }
    })
    asked.on('error', reject).end(JSON.stringify(call))
  })
}

/** Waits so long, or until the rule is lifted; no timer is left behind. */
async function delay(ms: number, lifted: Promise<void>): Promise<void> {
  const passed = Promise.withResolvers<void>()
  const timer = setTimeout(passed.resolve, ms)
  await Promise.race([passed.promise, lifted])
  clearTimeout(timer)
}

function envelope(id: unknown, content: { result: unknown } | { error: unknown }): RpcResponse {
  return { jsonrpc: '2.0', id, ...content }
}

function count(counts: Map<string, number>, method: string | undefined): number {
  let sum = 0
  for (const [one, times] of counts) if (method === undefined || isCalled(method, one)) sum += times
  return sum
}

const broadcastSync = 'eth_sendRawTransactionSync'
const pollForReceipt = 'eth_getTransactionReceipt'

/** Whether a method is meant by a name: a broadcast that waits for the receipt (EIP-7966) is a broadcast too. */
function isCalled(name: string, method: string): boolean {
  return method === name || (name === 'eth_sendRawTransaction' && method === broadcastSync)
}
