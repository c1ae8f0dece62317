import { createHash } from 'node:crypto'
import type { Decoded } from '../effects/effect.ts'
import type { Verdict } from './evaluate.ts'

/** Makes this hash different from every other use of SHA-256. */
const domainTag = 'tollgate-vault-decision-v1'

export interface DecisionInput {
  /** The frozen request as plain data, with its route, agent and body. */
  readonly request: unknown
  /** The decoded request that the owner saw. Undefined if nothing is signed (reads, calls of an API). */
  readonly decoded?: Decoded
  readonly verdict: Verdict
}

/**
 * The hash to which an approval is bound. It is SHA-256 in lower-case hex of the frozen request, of everything that the owner
 * saw, of the exact bytes to sign, and of the rules' verdict. If any of these changes, the approval does not apply.
 *
 * Two different inputs never give the same bytes, because every value has its kind and length, and keys are sorted.
 */
export function decisionHash(input: DecisionInput): string {
  const hash = createHash('sha256')
  write((bytes) => hash.update(bytes), [domainTag, input.request, input.decoded, input.verdict])
  return hash.digest('hex')
}

type Sink = (bytes: string | Uint8Array) => void

/** @throws {TypeError} for values that are not plain data: functions, symbols, class instances */
function write(sink: Sink, value: unknown): void {
  if (value === undefined) return sink('u')
  if (value === null) return sink('z')
  if (typeof value === 'boolean') return sink(value ? 't' : 'f')
  if (typeof value === 'bigint') return text(sink, 'i', value.toString())
  // String() would write -0 as 0.
  if (typeof value === 'number') return text(sink, 'n', Object.is(value, -0) ? '-0' : String(value))
  if (typeof value === 'string') return text(sink, 's', value)
  if (value instanceof Uint8Array) {
    sink(`b${value.length}:`)
    return sink(value)
  }
  if (Array.isArray(value)) {
    sink(`a${value.length}:`)
    for (const item of value) write(sink, item)
    return
  }
  const prototype = typeof value === 'object' ? Object.getPrototypeOf(value) : undefined
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError('Expected plain data to hash for a decision.')
  // An undefined field is treated as absent, because every reader here does so.
  const entries = Object.entries(value as object).filter(([, inner]) => inner !== undefined)
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  sink(`o${entries.length}:`)
  for (const [key, inner] of entries) {
    text(sink, 'k', key)
    write(sink, inner)
  }
}

/** Writes a text in UTF-16, so that unpaired surrogates stay unchanged. */
function text(sink: Sink, kind: string, value: string): void {
  sink(`${kind}${value.length}:`)
  sink(Buffer.from(value, 'utf16le'))
}
