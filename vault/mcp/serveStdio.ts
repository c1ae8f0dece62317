import { pipeline, type Readable, type Writable } from 'node:stream'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import type { Log } from '../../core/ports/log.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { createMcpServer, createMcpTools } from './createMcpServer.ts'
import { stdioMessages } from './stdioMessages.ts'

export interface StdioOptions {
  readonly api: VaultApi
  readonly log: Log
  /** The one agent that speaks over these streams. */
  readonly agentId: string
  readonly stdin: Readable
  readonly stdout: Writable
}

export interface StdioServer {
  /** Fulfilled when the client has gone; what was asked before is answered by then. */
  readonly ended: Promise<void>
}

/**
 * Serves one agent over standard input and output, one JSON-RPC message a line. Whoever started the process is that agent:
 * there is no token.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
 */
export async function serveStdio(options: StdioOptions): Promise<StdioServer> {
  const { api, log, agentId, stdin, stdout } = options
  const underWay = new Set<Promise<unknown>>()
  const gone = new AbortController()
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  const messages = stdioMessages((message) => stdout.write(message))
  const server = createMcpServer({
    api,
    tools: createMcpTools(api),
    agentId,
    log,
    gone: gone.signal,
    onCall(work) {
      underWay.add(work)
      void work.finally(() => underWay.delete(work))
    },
  })

  async function end(): Promise<void> {
    if (gone.signal.aborted) return
    // Nobody waits for the owner any longer, but what can be answered still is: a pipe's input ends with its last line.
    gone.abort()
    await settled()
    while (underWay.size > 0) await Promise.allSettled(underWay)
    await settled()
    await server.close()
  }

  server.onclose = () => {
    gone.abort()
    messages.destroy()
    resolve()
  }
  messages.once('end', () => void end())
  messages.once('close', () => void end())
  stdout.on('error', () => void end())
  await server.connect(new StdioServerTransport(messages as never, stdout as never))
  pipeline(stdin, messages, () => undefined)
  return { ended }
}

/** After it, what was read has begun, and what was answered is on its way out: the SDK goes from one to the other at once. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
