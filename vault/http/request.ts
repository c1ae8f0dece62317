import type { Caller } from '../host/caller.ts'

/** A request as every transport hands it in: HTTP on loopback, the owner's socket, and the relay's channel. */
export interface VaultRequest {
  readonly method: string
  /** Path and query, origin form. */
  readonly target: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The body as text; empty where there is none. */
  readonly body: string
  readonly caller: Caller
  readonly requestId: string
  readonly signal?: AbortSignal
}

export interface VaultReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
