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
import type { VaultApi } from '../host/createVaultApi.ts'
import type { Tool } from '../operations/operation.ts'
import { tools as allTools, interfaceVersion, vaultName } from '../operations/table.ts'
import { callTool } from './callTool.ts'
import { inputSchemaOf, outputSchemaOf } from './toolSchemas.ts'

/** The tools of a vault as clients see them. They are built once and are the same for every MCP session. */
export interface McpTools {
  readonly byName: ReadonlyMap<string, Tool>
  readonly listed: readonly object[]
}

export interface McpServerOptions {
  readonly api: VaultApi
  readonly tools: McpTools
  /** The session's agent. Every call is made as this agent in its current state. */
  readonly agentId: string
  readonly log: Log
  /** Aborted when the client disconnects, if one connection is the whole session. */
  readonly gone?: AbortSignal
  /** Called when the client cancels a request, which then gets no response. */
  readonly onCancelled?: (id: RequestId) => void
  /** Called with the promise of each tool call. */
  readonly onCall?: (work: Promise<unknown>) => void
}

/** The HTTP request that brought a call. The SDK passes it on in a field of its own. */
export interface CallOrigin {
  readonly requestId: string
  /** Aborted when the connection is gone. */
  readonly gone: AbortSignal
}

const instructions =
  'This vault lets you use a person’s wallets, stored values and API credentials without access to the keys. ' +
  'Start with vault_list_scopes. The owner’s rules decide on each request, or the owner, who may take minutes: a ' +
  'call waits for wait_seconds, then returns status pending, approval_id and expires_at, and the approval stays open. ' +
  'Tell your user, then call the same tool again with the same arguments to get the result. A result with error states ' +
  'what went wrong (code, message), what to do about it (action) and whether the same call may succeed later (retryable, ' +
  'retry_after_seconds). Never try to work around a refusal.\n' +
  'purpose: why you need it, in one sentence. amount: exact, in whole units of currency (SOL, ETH, USDC, USDT …), and ' +
  'checked against the bytes. idempotency_key: your own name for one request, 1 to 128 visible characters. Optional ' +
  'arguments may be omitted or null; pass objects as JSON text. Times are ISO 8601.'

/** The protocol's own schema, which also accepts null for no arguments, because some clients send it. */
const { params: callParams } = CallToolRequestSchema.shape
const callRequest = CallToolRequestSchema.extend({
  params: callParams
    .extend({ arguments: callParams.shape.arguments.nullable().transform((given) => given ?? undefined) })
    .catch(() => {
      throw new McpError(
        ErrorCode.InvalidParams,
        'params: Expected {name, arguments}: the name of a tool, and its arguments as an object, not as JSON text.',
      )
    }),
})

// The SDK would create one per session. It validates client responses that this server never requests.
const validator = new AjvJsonSchemaValidator()

export function createMcpTools(api: VaultApi): McpTools {
  const { chains } = api.about()
  return {
    byName: new Map(allTools.map((tool) => [tool.name, tool])),
    listed: allTools.map((tool) => viewTool(tool, chains)),
  }
}

/** Creates the MCP server of one session or one process, with the vault's tools for one agent. It is not connected yet. */
export function createMcpServer(options: McpServerOptions): Server {
  const { api, tools, agentId, log, gone, onCancelled, onCall } = options
  const server = new Server(
    { name: vaultName, title: 'Tollgate vault', version: interfaceVersion },
    { capabilities: { tools: {} }, instructions, jsonSchemaValidator: validator },
  )
  // The message is never logged, because it can quote what a client sent.
  server.onerror = (error) =>
    log.debug({ agentId, error: error.name }, 'an MCP message could not be processed')

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
        reportProgress(progress: number, total: number, message: string) {
          const params = { progressToken, progress, total, message }
          // A client that has disconnected gets no progress. Its signal ends the call.
          extra.sendNotification({ method: 'notifications/progress', params: params }).catch(() => undefined)
        },
      }),
    })
    onCall?.(work)
    return await work
  })
  return server
}

const viewTool = (tool: Tool, chains: readonly string[]) => {
  const { name, description, changes } = tool
  return {
    name,
    description,
    inputSchema: inputSchemaOf(tool, chains),
    outputSchema: outputSchemaOf(tool),
    annotations: hintsOf(changes),
  }
}

/** The hints of a tool. Default values of the protocol are omitted (MCP 2025-11-25, ToolAnnotations). */
const hintsOf = (changes: Tool['changes']): object => ({
  ...(changes === undefined && { readOnlyHint: true }),
  ...(changes?.repeatable && { idempotentHint: true }),
  ...(!changes?.outside && { openWorldHint: false }),
})
