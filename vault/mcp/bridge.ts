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
import { stdioMessages } from './stdioMessages.ts'

/** Thrown where the vault does not know the session any more: it was restarted, or nobody used it for long. */
class SessionEnded extends Error {}

const outcomeUnknown =
  'The connection to the vault was lost, and with it the answer. It may have been done: look at vault_activity before you do it again.'

/**
 * Passes messages between standard input and output and a vault's `/mcp`, until the input ends and what came before is
 * answered. A session that ended is begun again with what the client said at its start: a client that starts its server
 * itself has one session for its whole life.
 */
export async function bridgeMcp(url: URL, token: string): Promise<void> {
  const messages = stdioMessages((message) => process.stdout.write(message))
  const stdio = new StdioServerTransport(messages, process.stdout)
  /** Requests of the client that have no answer yet. */
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
      fetch: (to, init) => ask(to, init, () => transport.sessionId !== undefined, lost),
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

  /** Begins another session as the client began the first; the client hears nothing of it. */
  async function renew(): Promise<void> {
    const next = await connect()
    const answered = new Promise<void>((resolve, reject) => {
      next.onmessage = (message) => {
        if (!isJSONRPCResultResponse(message)) return reject(new Error('The vault did not begin a session.'))
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
        ? `No vault answers at ${url.href}: start it with tollgate vault --mode http-mcp.`
        : error instanceof TypeError
          ? outcomeUnknown
          : String((error as Error).message)
    back({ jsonrpc: '2.0', id: message.id, error: { code: -32_000, message: why } })
  }

  /** The answer to a request ended; where it held none, the client hears so and does not wait for ever. */
  function lost(id: RequestId): void {
    // What came last is on its way through the transport.
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
    // Who cancels a request gets no answer to it.
    else if ('method' in message && message.method === 'notifications/cancelled')
      close(message.params?.['requestId'] as RequestId)
    // A notification is heard before what follows it; a request may take minutes.
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
 * An answer that is an error becomes the error of the request that it is for: the vault names no id, because it did not
 * read so far.
 */
async function ask(
  to: string | URL,
  init: RequestInit | undefined,
  hasSession: () => boolean,
  ended: (id: RequestId) => void,
): Promise<Response> {
  const answer = await fetch(to, init)
  if (init?.method !== 'POST') return answer
  const message = JSON.parse(String(init.body)) as { id?: RequestId }
  if (answer.ok) return message.id === undefined ? answer : watched(answer, () => ended(message.id!))
  if (answer.status === 404 && hasSession()) throw new SessionEnded('The session ended.')
  const { error } = ((await answer.json().catch(() => undefined)) ?? {}) as { error?: VaultSays }
  if (message.id === undefined || error === undefined) throw new Error(`The vault answered ${answer.status}.`)
  const shown =
    typeof error.code === 'number'
      ? error
      : { code: -32_000, message: [error.message, error.action].join(' ').trim(), data: error }
  return Response.json({ jsonrpc: '2.0', id: message.id, error: shown })
}

/** The same answer, whose end is told, however it ended. */
function watched(answer: Response, ended: () => void): Response {
  async function* chunks(body: ReadableStream<Uint8Array>) {
    try {
      yield* body
    } catch {
      // Cut off: told below, to the one who waits for it.
    } finally {
      ended()
    }
  }
  const body = answer.body === null ? null : ReadableStream.from(chunks(answer.body))
  return new Response(body as never, { status: answer.status, headers: answer.headers })
}

/** An error in the protocol's form, or in the one of the vault's routes. */
interface VaultSays {
  readonly code: number | string
  readonly message: string
  readonly action?: string
}
