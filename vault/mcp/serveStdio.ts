import { pipeline, type Readable, type Writable } from 'node:stream'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import type { Log } from '../../core/ports/log.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import { createMcpServer, createMcpTools } from './createMcpServer.ts'
import { stdioMessages } from './jsonRpc.ts'

export interface StdioOptions {
  readonly api: VaultApi
  readonly log: Log
  /** The agent that uses these streams. */
  readonly agentId: string
  readonly stdin: Readable
  readonly stdout: Writable
}

export interface StdioServer {
  /** Fulfilled when the client has disconnected and earlier requests have their responses. */
  readonly ended: Promise<void>
}

/**
 * Serves one agent over standard input and output, with one JSON-RPC message per line. There is no token, because the process
 * that started this process is the agent.
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
    // No request waits for the owner any longer. Other requests are still completed, because the input of a pipe ends right
    // after its last line.
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

/**
 * Resolves when the requests that were read have started, and finished responses are being sent. The SDK does both in one turn.
 */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
