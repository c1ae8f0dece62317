import { randomUUID } from 'node:crypto'
import type { Log } from '../../core/ports/log.ts'
import { errorBody, isVaultError, VaultError } from '../errors/error.ts'
import type { Asked, RequestContext } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import type { Tool } from '../operations/operation.ts'
import { waiting } from './toolSchemas.ts'

/** Pause between two progress notifications to a client that waits for the owner, in ms. */
const EVERY_MS = 5_000
const DEFAULT_WAIT_SECONDS = 25

/** The result of a tool call, in the protocol's form (CallToolResult). */
export interface ToolResult {
  readonly [name: string]: unknown
  readonly content: { type: 'text'; text: string }[]
  readonly structuredContent: Record<string, unknown>
  readonly isError?: true
}

/** One call, as the transport passes it on. */
export interface ToolCall {
  readonly tool: Tool
  readonly input: Readonly<Record<string, unknown>>
  /** Aborted when the client cancels or disconnects. The wait for the owner then ends. */
  readonly signal: AbortSignal
  readonly requestId?: string | undefined
  /** Sends the client the seconds that the call has waited. Absent if the client did not request progress. */
  readonly reportProgress?: ((seconds: number, total: number, message: string) => void) | undefined
}

/**
 * Runs one tool for one agent. Every failure is a tool result, because the agent can read it. The client would not show a
 * protocol error to the agent.
 */
export async function callTool(
  api: VaultApi,
  log: Log,
  agentId: string,
  call: ToolCall,
): Promise<ToolResult> {
  const { requestId = randomUUID() } = call
  try {
    const agent = api.agentOf(agentId)
    if (agent === undefined || agent.revokedAt !== null) throw new VaultError('UNAUTHORIZED')
    return await run(api, call, { caller: { kind: 'agent', agent, via: 'mcp' }, requestId })
  } catch (error) {
    if (!isVaultError(error)) log.error({ err: error, requestId }, 'unexpected error')
    return failed(error)
  }
}

async function run(api: VaultApi, call: ToolCall, caller: RequestContext): Promise<ToolResult> {
  const { tool, reportProgress, signal } = call
  const { input, waitSeconds } = takeWait(tool, call.input)
  const progress = reportProgress && startProgress(waitSeconds, reportProgress)
  try {
    const context = {
      ...caller,
      signal,
      waitMs: waitSeconds * 1_000,
      ...(progress && { onAsked: progress.begin }),
    }
    const { status, body } = await tool.run(api, { input, name: '', context })
    return status === 202 ? pending(body) : toResult(body)
  } finally {
    progress?.stop()
  }
}

/** Separates the common fields of tools that may need approval from the operation's own. @throws `VALIDATION_ERROR` */
function takeWait({ mayAsk }: Tool, input: Readonly<Record<string, unknown>>) {
  // For any other tool it is an unknown field, which the operation refuses.
  if (!mayAsk || input['wait_seconds'] === undefined) return { input, waitSeconds: DEFAULT_WAIT_SECONDS }
  const { wait_seconds, ...rest } = input
  const { wait_seconds: waitSeconds = DEFAULT_WAIT_SECONDS } = waiting.check({ wait_seconds })
  return { input: rest, waitSeconds }
}

const pending = ({ approval_id, expires_at }: Readonly<Record<string, unknown>>): ToolResult =>
  toResult({
    status: 'pending',
    approval_id,
    expires_at,
    next:
      'The owner was asked and has not decided yet. Tell your user, then call this tool again with the same ' +
      'arguments to keep waiting. The repeated call joins the same approval and returns the result once the owner approves. ' +
      'vault_approval_status returns its state.',
  })

function failed(error: unknown): ToolResult {
  const { error: shown } = errorBody(error)
  const seconds = isVaultError(error) ? error.retryAfterSeconds : undefined
  const body = { error: seconds === undefined ? shown : { ...shown, retry_after_seconds: seconds } }
  return { ...toResult(body), isError: true }
}

/**
 * The body as structured content, and as text for clients older than 2025-06-18. Null fields are omitted, so that each field
 * has one type.
 */
function toResult(body: object): ToolResult {
  const json = JSON.stringify(body, (_key, value: unknown) =>
    value === null ? undefined : typeof value === 'bigint' ? String(value) : value,
  )
  return { content: [{ type: 'text', text: json }], structuredContent: JSON.parse(json) }
}

interface Progress {
  /** Called when the owner's approval is requested. From then on the client gets progress every few seconds. */
  readonly begin: (asked: Asked) => void
  readonly stop: () => void
}

/**
 * Reports to a client that the owner is being asked. The progress value is the seconds that the call has waited, because the
 * protocol requires a growing value (MCP 2025-11-25, "Progress").
 */
export function startProgress(
  waitSeconds: number,
  tell: (seconds: number, total: number, message: string) => void,
): Progress {
  let timer: NodeJS.Timeout | undefined
  return {
    begin({ approvalId, expiresAtMs }) {
      if (timer !== undefined || waitSeconds === 0) return
      const until = new Date(expiresAtMs).toISOString()
      const message = `Waiting for the owner (${approvalId}), who can decide until ${until}.`
      let seconds = 0
      const next = (): void => {
        tell(seconds, waitSeconds, message)
        seconds += EVERY_MS / 1_000
      }
      next()
      timer = setInterval(next, EVERY_MS)
      timer.unref()
    },
    stop() {
      clearInterval(timer)
    },
  }
}
