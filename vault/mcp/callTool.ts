import { randomUUID } from 'node:crypto'
import type { Log } from '../../core/ports/log.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { errorBody } from '../errors/errorBody.ts'
import type { Asked, RequestContext } from '../host/caller.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import type { Tool } from './tool.ts'
import { waiting } from './toolTable.ts'

/** How often a client that waits for the owner hears that it still does. */
const EVERY_MS = 5_000
const DEFAULT_WAIT_SECONDS = 25

/** What a tool call ends with, in the protocol's own words (CallToolResult). */
export interface ToolResult {
  readonly [name: string]: unknown
  readonly content: { type: 'text'; text: string }[]
  readonly structuredContent: Record<string, unknown>
  readonly isError?: true
}

/** One call as the transport hands it over. */
export interface ToolCall {
  readonly tool: Tool
  readonly input: Readonly<Record<string, unknown>>
  /** Aborted when the client cancels or has gone: then nobody waits for the owner any longer. */
  readonly signal: AbortSignal
  readonly requestId?: string | undefined
  /** Tells the client how long it has been waiting; absent when it did not ask to hear of it. */
  readonly tellProgress?: ((seconds: number, total: number, message: string) => void) | undefined
}

/**
 * Runs one tool for one agent. Whatever goes wrong is a result that the agent can read, never a protocol error: an agent
 * sees results, and its client keeps protocol errors to itself.
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
  const { tool, tellProgress, signal } = call
  const { input, waitSeconds } = takeWait(tool, call.input)
  const progress = tellProgress && startProgress(waitSeconds, tellProgress)
  try {
    const { status, body } = await tool.run(api, input, {
      ...caller,
      signal,
      waitMs: waitSeconds * 1_000,
      ...(progress && { onAsked: progress.begin }),
    })
    return status === 202 ? pending(body) : told(body)
  } finally {
    progress?.stop()
  }
}

/** Takes out what tools that may ask have beside the operation's own fields. @throws `VALIDATION_ERROR` */
function takeWait({ mayAsk }: Tool, input: Readonly<Record<string, unknown>>) {
  // Where it means nothing it is a field that does not exist, and refused as such by the operation.
  if (!mayAsk || input['wait_seconds'] === undefined) return { input, waitSeconds: DEFAULT_WAIT_SECONDS }
  const { wait_seconds, ...rest } = input
  const { wait_seconds: waitSeconds = DEFAULT_WAIT_SECONDS } = waiting.check({ wait_seconds })
  return { input: rest, waitSeconds }
}

const pending = ({ approval_id, expires_at }: Readonly<Record<string, unknown>>): ToolResult =>
  told({
    status: 'pending',
    approval_id,
    expires_at,
    next:
      'The owner has been asked and has not answered yet. Tell your user; then call this tool again with the same ' +
      'arguments to wait on: it joins the same question and gives the result once the owner agrees. ' +
      'vault_approval_status tells how it stands.',
  })

function failed(error: unknown): ToolResult {
  const { error: shown } = errorBody(error)
  const seconds = isVaultError(error) ? error.retryAfterSeconds : undefined
  const body = { error: seconds === undefined ? shown : { ...shown, retry_after_seconds: seconds } }
  return { ...told(body), isError: true }
}

/**
 * The same twice: structured, and as text for clients of before 2025-06-18. What is null is left out, so that each field has
 * one type.
 */
function told(body: object): ToolResult {
  const json = JSON.stringify(body, (_key, value: unknown) =>
    value === null ? undefined : typeof value === 'bigint' ? String(value) : value,
  )
  return { content: [{ type: 'text', text: json }], structuredContent: JSON.parse(json) }
}

interface Progress {
  /** Called when the owner is asked; from then on the client is told, at once and every few seconds. */
  readonly begin: (asked: Asked) => void
  readonly stop: () => void
}

/**
 * Tells a client that the owner is being waited for. Seconds are what grows, because the protocol wants each value to be
 * higher than the one before (MCP 2025-11-25, "Progress").
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
      const message = `The owner is asked (${approvalId}) and can answer until ${until}.`
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
