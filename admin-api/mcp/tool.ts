import type { ToolResult } from './toolResult.ts'

/** What a client may tell its user about a tool before it is called; nothing here relies on it. */
export interface ToolHints {
  /** True when nothing is changed anywhere. */
  readonly readOnly: boolean
  /** True when something is lost or spent that can't be taken back. */
  readonly destructive: boolean
  /** True when the same call again changes nothing more. */
  readonly idempotent: boolean
  /** True when parties outside the service are reached. */
  readonly openWorld: boolean
}

export const reads: ToolHints = { readOnly: true, destructive: false, idempotent: true, openWorld: false }

export type Schema = Readonly<Record<string, unknown>>

/** JSON Schema of the arguments of a tool; none besides are taken. */
export interface ArgumentsSchema extends Schema {
  readonly type: 'object'
  readonly additionalProperties: false
  readonly required: readonly string[]
  readonly properties: Readonly<Record<string, Schema>>
}

/** One request to a route of this API, run in this process by the route itself: its limits, its schema, its answer. */
export interface RouteRequest {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

export interface RouteAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: unknown
}

/** What a tool is handed with its arguments. */
export interface ToolContext {
  readonly requestId: string
  readonly clientIp: string
  /** Aborted when the client cancels or has gone. */
  readonly signal: AbortSignal
  /** Of the call's parameters: where a payment comes (x402 v2, MCP transport). */
  readonly meta: Schema
  /** Asks as whoever called: from the same address, with the same key. */
  ask(request: RouteRequest): Promise<RouteAnswer>
  /** Counts against a limit of the caller's address. @throws `RATE_LIMIT_EXCEEDED` */
  take(name: string, limit: number, windowMs: number): Promise<void>
}

export type Arguments = Readonly<Record<string, unknown>>

/** One tool: what agents read about it, and what is behind it. */
export interface Tool {
  readonly name: string
  readonly title: string
  /** Written for the agent that has to decide whether and how to call it. */
  readonly description: string
  readonly input: ArgumentsSchema
  /** Of a result that is no error. */
  readonly output: Schema
  readonly hints: ToolHints
  run(input: Arguments, context: ToolContext): Promise<ToolResult>
}
