import { pipeline } from 'node:stream'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  type InitializeResult,
  isInitializeRequest,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js'
import { stdioMessages } from './jsonRpc.ts'

/** The vault no longer has the MCP session, because the vault was restarted or the session was idle for too long. */
class SessionEnded extends Error {}

const outcomeUnknown =
  'The connection to the vault was lost before the response came. The action may have been performed, so check vault_activity before you repeat it.'

/**
 * Passes messages between standard input and output and a vault's `/mcp`, until the input ends and earlier requests have their
 * responses. If the vault ends the MCP session, the bridge starts another one with the client's own initialize message, because
 * a client on standard input never starts a second session itself.
 */
export async function bridgeMcp(url: URL, token: string): Promise<void> {
  const messages = stdioMessages((message) => process.stdout.write(message))
  const stdio = new StdioServerTransport(messages, process.stdout)
  /** Requests of the client that have no response yet. */
  const open = new Set<RequestId>()
  const { promise: allAnswered, resolve: allDone } = Promise.withResolvers<void>()
  let isOver = false
  let begun: JSONRPCMessage | undefined
  let http = await connect()
  let renewing: Promise<void> | undefined
  let inTurn: Promise<unknown> = Promise.resolve()

  async function connect(): Promise<StreamableHTTPClientTransport> {
    const transport: StreamableHTTPClientTransport = new StreamableHTTPClientTransport(url, {
      requestInit: { headers: { authorization: `Bearer ${token}` } },
      fetch: (to, init) => callVault(to, init, () => transport.sessionId !== undefined, lost),
    })
    transport.onmessage = back
    await (transport as Transport).start()
    return transport
  }

  function back(message: JSONRPCMessage): void {
    if ('id' in message && !('method' in message) && message.id !== undefined) {
      if (isJSONRPCResultResponse(message) && begun !== undefined && 'protocolVersion' in message.result)
        http.setProtocolVersion((message.result as InitializeResult).protocolVersion)
      close(message.id)
    }
    void stdio.send(message)
  }

  function close(id: RequestId): void {
    open.delete(id)
    if (isOver && open.size === 0) allDone()
  }

  async function forth(message: JSONRPCMessage): Promise<void> {
    if (isInitializeRequest(message)) begun = message
    try {
      await http.send(message)
    } catch (error) {
      if (!(error instanceof SessionEnded) || begun === undefined) return refuse(message, error)
      try {
        await (renewing ??= renew().finally(() => (renewing = undefined)))
        await http.send(message)
      } catch (again) {
        refuse(message, again)
      }
    }
  }

  /** Starts another MCP session with the client's first message. The client does not notice it. */
  async function renew(): Promise<void> {
    const next = await connect()
    const answered = new Promise<void>((resolve, reject) => {
      next.onmessage = (message) => {
        if (!isJSONRPCResultResponse(message))
          return reject(new Error('The vault did not start an MCP session.'))
        next.setProtocolVersion((message.result as InitializeResult).protocolVersion)
        resolve()
      }
    })
    await next.send({ ...begun, id: 'again' } as JSONRPCMessage)
    await answered
    next.onmessage = back
    await next.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
    http = next
  }

  function refuse(message: JSONRPCMessage, error: unknown): void {
    if (!isJSONRPCRequest(message)) return
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException
    const why =
      code === 'ECONNREFUSED'
        ? `No vault responds at ${url.href}. Start a vault with tollgate vault --mode http-mcp.`
        : error instanceof TypeError
          ? outcomeUnknown
          : String((error as Error).message)
    back({ jsonrpc: '2.0', id: message.id, error: { code: -32_000, message: why } })
  }

  /**
   * Called when the response stream of a request has ended. If it contained no response, the client gets an error, so that it
   * does not wait forever.
   */
  function lost(id: RequestId): void {
    // The timer is needed because the last message may still be in the transport.
    setTimeout(() => {
      if (open.has(id)) back({ jsonrpc: '2.0', id, error: { code: -32_000, message: outcomeUnknown } })
    }, 200)
  }

  const ended = new Promise<void>((resolve) => {
    messages.once('end', resolve)
    messages.once('close', resolve)
    process.stdout.once('error', () => resolve())
  })
  stdio.onmessage = (message) => {
    if (isJSONRPCRequest(message)) open.add(message.id)
    // A cancelled request gets no response.
    else if ('method' in message && message.method === 'notifications/cancelled')
      close(message.params?.['requestId'] as RequestId)
    // The bridge waits for a notification before it sends the next message. It does not wait for a request, which may take
    // minutes.
    inTurn = inTurn.then(() => {
      const done = forth(message)
      return isJSONRPCRequest(message) ? undefined : done
    })
  }
  await stdio.start()
  pipeline(process.stdin, messages, () => undefined)
  await ended
  await inTurn
  isOver = true
  if (open.size > 0) await allAnswered
  await http.terminateSession().catch(() => undefined)
  await http.close()
  await stdio.close()
  messages.destroy()
}

/**
 * Sends a message. An HTTP error becomes the error of its JSON-RPC request. The vault's error has no id, because the vault
 * could not read the request's id.
 */
async function callVault(
  to: string | URL,
  init: RequestInit | undefined,
  hasSession: () => boolean,
  ended: (id: RequestId) => void,
): Promise<Response> {
  const response = await fetch(to, init)
  if (init?.method !== 'POST') return response
  const message = JSON.parse(String(init.body)) as { id?: RequestId }
  if (response.ok) return message.id === undefined ? response : watched(response, () => ended(message.id!))
  if (response.status === 404 && hasSession()) throw new SessionEnded('The MCP session ended.')
  const { error } = ((await response.json().catch(() => undefined)) ?? {}) as { error?: VaultSays }
  if (message.id === undefined || error === undefined)
    throw new Error(`The vault returned status ${response.status}.`)
  const shown =
    typeof error.code === 'number'
      ? error
      : { code: -32_000, message: [error.message, error.action].join(' ').trim(), data: error }
  return Response.json({ jsonrpc: '2.0', id: message.id, error: shown })
}

/** The same response, with a callback that is called when it ends in any way. */
function watched(response: Response, ended: () => void): Response {
  async function* chunks(body: ReadableStream<Uint8Array>) {
    try {
      yield* body
    } catch {
      // A response that is cut off is reported by the callback.
    } finally {
      ended()
    }
  }
  const body = response.body === null ? null : ReadableStream.from(chunks(response.body))
  return new Response(body as never, { status: response.status, headers: response.headers })
}

/** An error in the form of the protocol, or of the vault's routes. */
interface VaultSays {
  readonly code: number | string
  readonly message: string
  readonly action?: string
}
