import { createHash } from 'node:crypto'
import type { Decoded } from '../effects/decoded.ts'
import type { Verdict } from './evaluate.ts'

/** Keeps this hash from being one of anything else that is hashed with SHA-256. */
const domainTag = 'tollgate-vault-decision-v1'

export interface DecisionInput {
  /** The request as it was frozen: its route, agent and body. Plain data. */
  readonly request: unknown
  /** What was shown; undefined where nothing is signed (reads, calls of an API). */
  readonly decoded?: Decoded
  readonly verdict: Verdict
}

/**
 * What an approval is bound to: SHA-256 in lower-case hex over the frozen request, everything that was shown of it, the
 * very bytes to sign, and what the rules said. Change any of them and the approval is for something else.
 *
 * The data is written in a form with one meaning: every value carries its kind and length, keys are sorted. So two
 * different inputs never give the same bytes.
 */
export function decisionHash(input: DecisionInput): string {
  const hash = createHash('sha256')
  write((bytes) => hash.update(bytes), [domainTag, input.request, input.decoded, input.verdict])
  return hash.digest('hex')
}

type Sink = (bytes: string | Uint8Array) => void

/** @throws {TypeError} for anything that is no plain data: functions, symbols, class instances */
function write(sink: Sink, value: unknown): void {
  if (value === undefined) return sink('u')
  if (value === null) return sink('z')
  if (typeof value === 'boolean') return sink(value ? 't' : 'f')
  if (typeof value === 'bigint') return text(sink, 'i', value.toString())
  // String() writes -0 as 0.
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
  // An absent field and one that is undefined mean the same to every reader here.
  const entries = Object.entries(value as object).filter(([, inner]) => inner !== undefined)
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  sink(`o${entries.length}:`)
  for (const [key, inner] of entries) {
    text(sink, 'k', key)
    write(sink, inner)
  }
}

/** Written as UTF-16, so that unpaired surrogates stay what they are. */
function text(sink: Sink, kind: string, value: string): void {
  sink(`${kind}${value.length}:`)
  sink(Buffer.from(value, 'utf16le'))
}
