import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { LocalChainError } from '../jsonRpcClient.ts'
import { INVALID_REQUEST, METHOD_NOT_FOUND, RpcError } from './rpcError.ts'
import type { RpcMethods } from './rpcMethods.ts'

/** Maximum port pairs that are tried. */
const PORT_ATTEMPTS = 20
/** How long a WebSocket client may take to close its connection, in ms. */
const CLOSE_TIMEOUT_MS = 500

/** One WebSocket client's side of the subscription methods. */
export type SubscriptionPeer = {
  /** Sends a notification. Does nothing once the client has disconnected. */
  notify(method: string, subscription: number, result: unknown): void
  onClose(listener: () => void): void
}

/** Subscription methods by name. A task of `afterResponseEnd` runs once the response with the subscription's number was sent. */
export type SubscriptionMethods = Record<
  string,
  (peer: SubscriptionPeer, afterResponseEnd: (task: () => void) => void, ...params: never[]) => unknown
>

/** A listening server. */
export type RpcServer = { rpcUrl: string; wsUrl: string; close(): Promise<void> }

const PARSE_ERROR = JSON.stringify({
  jsonrpc: '2.0',
  error: { code: -32700, message: 'Parse error' },
  id: null,
})

type RpcRequest = { jsonrpc: '2.0'; id: unknown; method: string; params?: unknown[] }

/**
 * Serves JSON-RPC over HTTP on one port of 127.0.0.1, and subscriptions over WebSocket on that port and on the next one. A
 * validator does the same, and @solana/web3.js derives the WebSocket port from the URL's port.
 *
 * @param port 0 for any two consecutive free ports
 */
export async function startRpcServer(
  port: number,
  methods: RpcMethods,
  subscriptions: SubscriptionMethods,
): Promise<RpcServer> {
  const http = createServer((request, response) => {
    // A client that disconnects during its request must not end the process.
    answerHttp(request, response, methods).catch(() => response.destroy())
  })
  const next = createServer((_request, response) => void response.writeHead(426).end())
  const sockets = new WebSocketServer({ noServer: true })
  sockets.on('connection', (socket: WebSocket) => answerSocket(socket, methods, subscriptions))
  for (const server of [http, next]) {
    server.on('upgrade', (request, socket, head) => {
      sockets.handleUpgrade(request, socket, head, (client) => sockets.emit('connection', client, request))
    })
  }
  const chosen = await listenOnPair(http, next, port)

  return {
    rpcUrl: `http://127.0.0.1:${chosen}`,
    wsUrl: `ws://127.0.0.1:${chosen + 1}`,
    async close() {
      await Promise.all([...sockets.clients].map(closeSocket))
      sockets.close()
      await Promise.all([http, next].map(closeServer))
    },
  }
}

async function listenOnPair(first: Server, second: Server, port: number): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    try {
      const chosen = await listen(first, port)
      await listen(second, chosen + 1)
      return chosen
    } catch (cause) {
      if (first.listening) await closeServer(first)
      if (port === 0 && attempt < PORT_ATTEMPTS) continue
      const wanted = port === 0 ? 'two consecutive free ports' : `the ports ${port} and ${port + 1}`
      throw new LocalChainError(
        'local_chain_start_failed',
        `The local Solana chain needs ${wanted} on 127.0.0.1 and did not get them; choose another port.`,
        { cause },
      )
    }
  }
}

async function listen(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1')
  // `once` rejects if the server emits 'error' instead.
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}

/** Closes one client with the code for a normal end. After any other code, @solana/web3.js would reconnect forever. */
async function closeSocket(socket: WebSocket): Promise<void> {
  const timer = setTimeout(() => socket.terminate(), CLOSE_TIMEOUT_MS)
  const closed = once(socket, 'close').catch(() => socket.terminate())
  socket.close(1000, 'the local chain ends')
  await closed
  clearTimeout(timer)
}

async function answerHttp(request: IncomingMessage, response: ServerResponse, methods: RpcMethods) {
  if (request.method === 'GET' && request.url === '/health') return response.end('ok')
  if (request.method !== 'POST')
    return response.writeHead(405).end('Used HTTP Method is not allowed. POST is.')
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const asked = parse(Buffer.concat(chunks).toString()) as RpcRequest | RpcRequest[] | undefined
  if (asked === undefined) return response.end(PARSE_ERROR)
  const answer = Array.isArray(asked)
    ? asked.map((one) => answerOne(one, (name) => methods[name]))
    : answerOne(asked, (name) => methods[name])
  response.setHeader('content-type', 'application/json')
  return response.end(JSON.stringify(answer))
}

function answerSocket(socket: WebSocket, methods: RpcMethods, subscriptions: SubscriptionMethods) {
  const peer: SubscriptionPeer = {
    notify(method, subscription, result) {
      if (socket.readyState !== socket.OPEN) return
      socket.send(JSON.stringify({ jsonrpc: '2.0', method, params: { result, subscription } }))
    },
    onClose: (listener) => void socket.once('close', listener),
  }
  socket.on('message', (data) => {
    const tasks: (() => void)[] = []
    const asked = parse(String(data))
    if (asked === undefined) return socket.send(PARSE_ERROR)
    const response = answerOne(asked as RpcRequest, (name) => {
      const subscribe = subscriptions[name] as ((...all: unknown[]) => unknown) | undefined
      return subscribe?.bind(undefined, peer, (task: () => void) => tasks.push(task)) ?? methods[name]
    })
    socket.send(JSON.stringify(response))
    for (const task of tasks) task()
  })
  socket.on('error', () => socket.terminate())
}

/** JSON as an object. Undefined for any other JSON, because a bare number or null is no request. */
function parse(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

function answerOne(
  request: RpcRequest,
  methodOf: (name: string) => ((...p: unknown[]) => unknown) | undefined,
) {
  const { id = null, method, params = [] } = request
  const refuse = (code: number, message: string, data?: unknown) => ({
    jsonrpc: '2.0',
    error: { code, message, ...(data === undefined ? {} : { data }) },
    id,
  })
  if (typeof method !== 'string' || !Array.isArray(params)) return refuse(INVALID_REQUEST, 'Invalid request')
  const run = methodOf(method)
  if (run === undefined) return refuse(METHOD_NOT_FOUND, 'Method not found')
  try {
    return { jsonrpc: '2.0', result: run(...params), id }
  } catch (error) {
    if (error instanceof RpcError) return refuse(error.code, error.message, error.data)
    return refuse(-32603, `Internal error: ${error instanceof Error ? error.message : String(error)}`)
  }
}
