import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  CallToolRequestSchema,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv-provider.js'
import type { Log } from '../../core/ports/log.ts'
import { vaultName } from '../host/capabilities.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { callTool } from './callTool.ts'
import type { Tool } from './tool.ts'
import { inputSchemaOf, outputSchemaOf, toolTable } from './toolTable.ts'

/** The tools of a vault and how clients see them; the same for every session, so made once. */
export interface McpTools {
  readonly byName: ReadonlyMap<string, Tool>
  readonly listed: readonly object[]
}

export interface McpServerOptions {
  readonly api: VaultApi
  readonly tools: McpTools
  /** Whose session this is: every call is made by this agent, as it is then. */
  readonly agentId: string
  readonly log: Log
  /** Aborted when the client has gone, where one connection is the whole session. */
  readonly gone?: AbortSignal
  /** Called when the client cancels a request: it gets no answer any more. */
  readonly onCancelled?: (id: RequestId) => void
  /** Called with each tool call, from its beginning to its end. */
  readonly onCall?: (work: Promise<unknown>) => void
}

/** What the transport knows of the HTTP request that a call came in; handed through the SDK's own field for it. */
export interface CallOrigin {
  readonly requestId: string
  /** Aborted when the connection is gone. */
  readonly gone: AbortSignal
}

const instructions =
  'This is the vault of a person who lets you use wallets, stored values and API credentials without handing over keys. ' +
  'Begin with vault_list_scopes. What you ask for is decided by the owner’s rules or by the owner, who may take minutes: a ' +
  'call waits for wait_seconds, then its result has status pending, approval_id and expires_at, and the question is open. ' +
  'Tell your user about it and call the same tool again with the same arguments to get the result. A result with error says ' +
  'what went wrong (code, message), what to do about it (action) and whether the same call may succeed later (retryable, ' +
  'retry_after_seconds). Never try to get around a refusal.\n' +
  'purpose is why you want it, in a sentence. amount is exact, in whole units of currency (SOL, ETH, USDC, USDT …), and is ' +
  'proved against the bytes. idempotency_key is a name of your own for one request, 1 to 128 visible characters. Optional ' +
  'arguments are left out, or null; objects are given as JSON text. Times are in ISO 8601.'

/** The protocol's own, and with null for no arguments, as some clients send it. */
const { params: callParams } = CallToolRequestSchema.shape
const callRequest = CallToolRequestSchema.extend({
  params: callParams.extend({
    arguments: callParams.shape.arguments.nullable().transform((given) => given ?? undefined),
  }),
})

// The SDK would make one a session, for answers to questions that this server never asks.
const validator = new AjvJsonSchemaValidator()

export function createMcpTools(api: VaultApi): McpTools {
  const { chains } = api.capabilities()
  return {
    byName: new Map(toolTable.map((tool) => [tool.name, tool])),
    listed: toolTable.map((tool) => viewTool(tool, chains)),
  }
}

/** The protocol's server of one session or one process: the vault's tools for one agent. Not yet connected. */
export function createMcpServer(options: McpServerOptions): Server {
  const { api, tools, agentId, log, gone, onCancelled, onCall } = options
  const server = new Server(
    { name: vaultName, title: 'Tollgate vault', version: api.capabilities().version },
    { capabilities: { tools: {} }, instructions, jsonSchemaValidator: validator },
  )
  // Never with the message: it can quote what a client sent.
  server.onerror = (error) => log.debug({ agentId, error: error.name }, 'an MCP message was not understood')

  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [...tools.listed] as never }))

  server.setRequestHandler(callRequest, async ({ params }, extra) => {
    const tool = tools.byName.get(params.name)
    if (tool === undefined)
      throw new McpError(ErrorCode.InvalidParams, `Expected one of ${[...tools.byName.keys()].join(', ')}.`)
    const { signal, requestId: id } = extra
    const origin = extra.authInfo?.extra?.['origin'] as CallOrigin | undefined
    const progressToken = params._meta?.progressToken
    if (onCancelled !== undefined) signal.addEventListener('abort', () => onCancelled(id), { once: true })
    const work = callTool(api, log, agentId, {
      tool,
      input: params.arguments ?? {},
      signal: AbortSignal.any([signal, gone, origin?.gone].filter((one) => one !== undefined)),
      requestId: origin?.requestId,
      ...(progressToken !== undefined && {
        tellProgress(progress: number, total: number, message: string) {
          const told = { progressToken, progress, total, message }
          // A client that has gone hears nothing; the call ends by its signal.
          extra.sendNotification({ method: 'notifications/progress', params: told }).catch(() => undefined)
        },
      }),
    })
    onCall?.(work)
    return await work
  })
  return server
}

const viewTool = (tool: Tool, chains: readonly string[]) => {
  const { name, description, hints } = tool
  return {
    name,
    description,
    inputSchema: inputSchemaOf(tool, chains),
    outputSchema: outputSchemaOf(tool),
    annotations: hintsOf(hints),
  }
}

/** What the protocol takes for granted is not said (MCP 2025-11-25, ToolAnnotations). */
function hintsOf({ readOnly, destructive, idempotent, openWorld }: Tool['hints']): object {
  const hints = readOnly
    ? { readOnlyHint: true }
    : { ...(!destructive && { destructiveHint: false }), ...(idempotent && { idempotentHint: true }) }
  return { ...hints, ...(!openWorld && { openWorldHint: false }) }
}
