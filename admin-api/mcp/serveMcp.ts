import { randomUUID } from 'node:crypto'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { RequestId } from '@modelcontextprotocol/sdk/types.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Api } from '../deps.ts'
import { createMcpServer, type Toolbox } from './mcpServer.ts'
import type { ToolContext } from './tool.ts'

/** The calls under way, by {@link callKey}; each is ended by its function. */
export type CallsUnderWay = Map<string, () => void>

/** A number and a text are different ids (JSON-RPC 2.0, section 4). */
export const callKey = (session: string, id: RequestId): string => `${session} ${JSON.stringify(id)}`

export interface Served {
  readonly api: Pick<Api, 'serviceName' | 'log'>
  readonly toolbox: Toolbox
  readonly context: Omit<ToolContext, 'signal' | 'meta'>
  readonly underWay: CallsUnderWay
  /** The client's, if it names one. */
  readonly session: string | undefined
  /** Of the requests among the messages. */
  readonly ids: readonly RequestId[]
  /** The messages begin a session. */
  readonly begins: boolean
}

/**
 * Answers the messages of one HTTP request, by a server that lives as long as that. A client that goes away before its answer
 * came ends its calls as a buyer does who hangs up; so does one that cancels.
 */
export async function serveMcp(request: FastifyRequest, reply: FastifyReply, served: Served): Promise<void> {
  const { session, ids, underWay, begins } = served
  reply.hijack()
  const { raw: res } = reply
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) res.setHeader(name, value)
  if (begins) res.setHeader('mcp-session-id', randomUUID())
  const transport = new StreamableHTTPServerTransport()
  const server = createMcpServer({
    ...served,
    begin(id) {
      const cancelled = new AbortController()
      const cancel = () => {
        cancelled.abort()
        // A cancelled request has no answer (MCP, "Cancellation"): where nothing else is asked for, this ends.
        if (ids.length === 1) void server.close()
      }
      const key = session === undefined ? undefined : callKey(session, id)
      if (key !== undefined) underWay.set(key, cancel)
      return {
        signal: cancelled.signal,
        end() {
          if (key !== undefined && underWay.get(key) === cancel) underWay.delete(key)
        },
      }
    },
  })
  res.once('close', () => void server.close())
  // The SDK's own class does not fit its interface where optional fields are exact.
  await server.connect(transport as Transport)
  await transport.handleRequest(request.raw, res, request.body)
}
