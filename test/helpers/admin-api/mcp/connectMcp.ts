import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { Test } from 'tap'

/** What a tool call came back with. */
export interface Called {
  readonly isError?: boolean
  // biome-ignore lint/suspicious/noExplicitAny: tests look into results of every shape
  readonly structuredContent: any
  readonly content: readonly { readonly type: string; readonly text: string }[]
  // biome-ignore lint/suspicious/noExplicitAny: tests look into results of every shape
  readonly _meta?: any
}

export interface McpClient {
  readonly client: Client
  /** @param payment x402's payload, which goes along in `_meta` */
  call(name: string, args?: object, payment?: unknown, options?: RequestOptions): Promise<Called>
}

/** The protocol's own client, which checks results by the tools' output schemas; closed with the test. */
export async function connectMcp(t: Test, base: string, key?: string): Promise<McpClient> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const transport = new StreamableHTTPClientTransport(new URL('/mcp', base), { requestInit: { headers } })
  await client.connect(transport as Transport)
  t.teardown(() => client.close())
  await client.listTools()
  return {
    client,
    call: async (name, args = {}, payment, options) =>
      (await client.callTool(
        {
          name,
          arguments: { ...args },
          ...(payment !== undefined && { _meta: { 'x402/payment': payment } }),
        },
        undefined,
        options,
      )) as unknown as Called,
  }
}
