import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { Progress } from '@modelcontextprotocol/sdk/types.js'
import { createMcpMount, type McpMount, oauthRefusal } from '../../../../vault/mcp/httpMount.ts'
import {
  createTestClock,
  type RunningVault,
  type StartOptions,
  startVault,
  type TestAgent,
  type TestClock,
} from '../startVault.ts'

export interface RunningMcp {
  readonly vault: RunningVault
  readonly mount: McpMount
  readonly clock: TestClock
  /** `http://127.0.0.1:…/mcp` */
  readonly url: URL
  /** The real SDK's client, connected as this agent; closed with the test. */
  connect(agent: TestAgent, capabilities?: object): Promise<McpClient>
  /** One HTTP request to `/mcp`, with the protocol's own headers and those given. */
  send(options: SendOptions): Promise<Response>
}

export interface SendOptions {
  readonly token?: string | undefined
  readonly method?: string
  readonly body?: unknown
  readonly session?: string | undefined
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

export interface McpClient {
  readonly client: Client
  readonly transport: StreamableHTTPClientTransport
  call(name: string, args?: object, options?: CallOptions): Promise<Called>
}

export interface CallOptions {
  readonly signal?: AbortSignal
  readonly onprogress?: (progress: Progress) => void
}

export interface Called {
  readonly isError?: boolean
  // biome-ignore lint/suspicious/noExplicitAny: tests look into results of every shape
  readonly structuredContent: any
  readonly content: readonly { readonly type: string; readonly text: string }[]
}

/** The SDK's own minute is too short for a loaded machine. */
const PATIENCE_MS = 600_000

interface Test {
  teardown(work: () => unknown): unknown
}

/** An unlocked vault with `/mcp`, on a free port. */
export async function startMcp(t: Test, options: StartOptions = {}): Promise<RunningMcp> {
  const clock = createTestClock()
  let mount: McpMount | undefined
  const vault = await startVault(t, {
    clock,
    ...options,
    mounts: [
      { path: '/mcp', isPage: true, handle: (req, res, caller) => mount!.handle(req, res, caller) },
      oauthRefusal,
    ],
  })
  const made = createMcpMount(vault.api, { debug() {}, info() {}, warn() {}, error: fail }, clock)
  mount = made
  t.teardown(() => made.close())
  const url = new URL('/mcp', vault.url)

  return {
    vault,
    mount: made,
    clock,
    url,
    async connect({ token }, capabilities = {}) {
      const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities })
      const transport = new StreamableHTTPClientTransport(url, {
        requestInit: { headers: { authorization: `Bearer ${token}` } },
      })
      await client.connect(transport as Transport)
      t.teardown(() => client.close())
      // The client checks results by the tools' output schemas once it has seen them.
      await client.listTools()
      return {
        client,
        transport,
        call: async (name, args = {}, more = {}) =>
          (await client.callTool({ name, arguments: { ...args } }, undefined, {
            timeout: PATIENCE_MS,
            ...more,
          })) as unknown as Called,
      }
    },
    send: ({ token, method = 'POST', body, session, headers = {}, signal }) =>
      fetch(url, {
        method,
        headers: {
          accept: 'application/json, text/event-stream',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(session !== undefined && { 'mcp-session-id': session }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        ...(signal && { signal }),
      }),
  }
}

/** Nothing unexpected may happen in any test. */
function fail(fields: object, message: string): void {
  throw new Error(message, { cause: (fields as { err?: unknown }).err })
}

export const initialize = (protocolVersion = '2024-11-05', id: string | number = 1) => ({
  jsonrpc: '2.0',
  id,
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'wire', version: '1.0.0' } },
})

/** The JSON-RPC messages of an answer, as JSON or as server-sent events. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
export async function messagesOf(response: Response): Promise<any[]> {
  const text = await response.text()
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return [JSON.parse(text)]
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice('data: '.length)))
}
