import type {
  ApprovalQuestion,
  VaultDecision,
  VaultExchange,
  VaultOperation,
  VaultPhase,
} from '../../core/plugin/vault.ts'

/**
 * What goes between the vault and the process of one plugin: one JSON object a line. The vault believes nothing that comes
 * from there; every field is read with its type.
 */
export type ToPlugin =
  | {
      readonly t: 'load'
      readonly use: string
      readonly baseDir: string
      readonly isBuiltIn: boolean
      /** Of the built-in plugins, for messages. */
      readonly names: readonly string[]
    }
  | { readonly t: 'setup'; readonly options: unknown; readonly facts: DeskFacts }
  | { readonly t: 'start'; readonly facts: DeskFacts }
  | {
      readonly t: 'call'
      readonly id: number
      readonly operation: VaultOperation
      readonly phase: VaultPhase
      readonly x: VaultExchange
      readonly now: number
    }
  | { readonly t: 'question'; readonly question: ApprovalQuestion }
  | { readonly t: 'lock'; readonly facts: DeskFacts }
  /** The answer to an `ask`. */
  | { readonly t: 'answer'; readonly id: number; readonly value?: unknown; readonly error?: WireError }
  | { readonly t: 'close' }

export type FromPlugin =
  | { readonly t: 'loaded'; readonly plugin: PluginDescription }
  | { readonly t: 'ready'; readonly routes: Readonly<Record<string, readonly string[]>> }
  /** `load` or `setup` failed. */
  | { readonly t: 'refused'; readonly message: string }
  | { readonly t: 'decided'; readonly id: number; readonly decision?: VaultDecision | null }
  | { readonly t: 'threw'; readonly id: number; readonly message: string }
  | { readonly t: 'ask'; readonly id: number; readonly port: string; readonly args: readonly unknown[] }
  /** Nobody wants the answer of this `ask` any more. */
  | { readonly t: 'cancel'; readonly id: number }
  | { readonly t: 'log'; readonly level: string; readonly fields: unknown; readonly text: string }
  | { readonly t: 'closed' }

/** What a plugin's ports know without asking: renewed at the start and with each lock and unlock. */
export interface DeskFacts {
  readonly now: number
  readonly isLocked: boolean
  /** Of a plugin that needs `approvals`; none while locked. */
  readonly questions: readonly ApprovalQuestion[]
  /** Of a plugin that needs `store`; absent when nothing was written, and while locked. */
  readonly stored?: unknown
}

export interface WireError {
  readonly code?: string
  readonly message: string
}

/** What a plugin says of itself before it does anything, as plain data. */
export interface PluginDescription {
  readonly name: string
  readonly api: 1
  readonly options: unknown
  readonly needs: readonly string[]
  readonly slots?: unknown
}

/** A text that a plugin gave, cut; nothing for what is no text. */
export const wordsOf = (value: unknown, mostChars: number): string =>
  typeof value === 'string' ? value.slice(0, mostChars) : ''

/** The longest line that is taken from a plugin: above a stored value and any request that it may send. */
export const MAX_LINE_BYTES = 1_048_576

/** One line. Integers that JSON has no number for become text, bytes become hex. */
export const lineOf = (message: ToPlugin | FromPlugin): string => `${JSON.stringify(message, plain)}\n`

function plain(this: unknown, key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  const raw = (this as Record<string, unknown>)[key]
  return raw instanceof Uint8Array ? `0x${Buffer.from(raw).toString('hex')}` : value
}

/**
 * Cuts a stream into lines and reads them.
 *
 * @param onBad told what is wrong; after that nothing more is read
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
      if (bytes > maxBytes) return bad('said more at once than is taken')
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
        return bad('wrote to the channel between it and the vault')
      }
      onMessage(message)
    }
  }
}
