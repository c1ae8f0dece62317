import type {
  ApprovalRequest,
  VaultDecision,
  VaultExchange,
  VaultOperation,
  VaultPhase,
} from '../../core/plugin/vault.ts'
/** Freezes JSON deeply, so that it cannot change after it was checked. */
export function freezeJson<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const inner of Object.values(value)) freezeJson(inner)
  return Object.freeze(value)
}

/**
 * Messages between the vault and a plugin's process, as one JSON object per line. The vault trusts none of the plugin's
 * messages and checks the type of every field.
 */
export type ToPlugin =
  | {
      readonly t: 'load'
      readonly use: string
      readonly baseDir: string
      readonly isBuiltIn: boolean
      /** Names of the built-in plugins, for messages. */
      readonly names: readonly string[]
    }
  | { readonly t: 'setup'; readonly options: unknown; readonly facts: QueueFacts }
  | { readonly t: 'start'; readonly facts: QueueFacts }
  | {
      readonly t: 'call'
      readonly id: number
      readonly operation: VaultOperation
      readonly phase: VaultPhase
      readonly x: VaultExchange
      readonly now: number
    }
  | { readonly t: 'question'; readonly approval: ApprovalRequest }
  | { readonly t: 'lock'; readonly facts: QueueFacts }
  /** The response to an `ask`. */
  | { readonly t: 'answer'; readonly id: number; readonly value?: unknown; readonly error?: WireError }
  | { readonly t: 'close' }

export type FromPlugin =
  | { readonly t: 'loaded'; readonly plugin: PluginDescription }
  | { readonly t: 'ready'; readonly routes: Readonly<Record<string, readonly string[]>> }
  /** `load` or `setup` has failed. */
  | { readonly t: 'refused'; readonly message: string }
  | { readonly t: 'decided'; readonly id: number; readonly decision?: VaultDecision | null }
  | { readonly t: 'threw'; readonly id: number; readonly message: string }
  | { readonly t: 'ask'; readonly id: number; readonly port: string; readonly args: readonly unknown[] }
  /** The plugin no longer needs the response to this `ask`. */
  | { readonly t: 'cancel'; readonly id: number }
  | { readonly t: 'log'; readonly level: string; readonly fields: unknown; readonly text: string }
  | { readonly t: 'closed' }

/** State that a plugin's ports store locally. It is sent at the start and with each lock and unlock. */
export interface QueueFacts {
  readonly now: number
  readonly isLocked: boolean
  /** Approvals for a plugin that needs `approvals`. Empty while the vault is locked. */
  readonly approvals: readonly ApprovalRequest[]
  /** The stored value for a plugin that needs `store`. Absent if nothing was written, and while the vault is locked. */
  readonly stored?: unknown
}

export interface WireError {
  readonly code?: string
  readonly message: string
}

/** A plugin's description of itself as plain data. The plugin sends it before it does anything else. */
export interface PluginDescription {
  readonly name: string
  readonly api: 1
  readonly options: unknown
  readonly needs: readonly string[]
  readonly slots?: unknown
}

/** A plugin's text, cut to a length. Empty if the value is not a string. */
export const wordsOf = (value: unknown, maxChars: number): string =>
  typeof value === 'string' ? value.slice(0, maxChars) : ''

/** Maximum length of a line from a plugin, in bytes. A stored value and any request that it may send are shorter. */
export const MAX_LINE_BYTES = 1_048_576

/** A message as one line. Integers beyond JSON's safe range become strings, and bytes become hex. */
export const lineOf = (message: ToPlugin | FromPlugin): string => `${JSON.stringify(message, plain)}\n`

function plain(this: unknown, key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  const raw = (this as Record<string, unknown>)[key]
  return raw instanceof Uint8Array ? `0x${Buffer.from(raw).toString('hex')}` : value
}

/**
 * Splits a stream into lines and parses them.
 *
 * @param onBad receives the problem. Nothing more is read then
 */
export function createLineReader(
  maxBytes: number,
  onMessage: (message: unknown) => void,
  onBad: (what: string) => void,
): (chunk: Buffer) => void {
  let parts: Buffer[] = []
  let bytes = 0
  let isBad = false
  const bad = (what: string): void => {
    isBad = true
    parts = []
    onBad(what)
  }
  return (chunk) => {
    for (let at = 0; at < chunk.length && !isBad; ) {
      const end = chunk.indexOf(0x0a, at)
      const part = chunk.subarray(at, end === -1 ? undefined : end)
      bytes += part.length
      if (bytes > maxBytes) return bad('sent a line that is too long')
      parts.push(part)
      if (end === -1) return
      const text = Buffer.concat(parts).toString('utf8')
      parts = []
      bytes = 0
      at = end + 1
      let message: unknown
      try {
        message = JSON.parse(text)
      } catch {
        return bad('wrote to its channel to the vault')
      }
      onMessage(message)
    }
  }
}
