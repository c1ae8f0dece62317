import type { AuditWarning } from '../ports/audit.ts'

const hourMs = 3_600_000
/** A log that would be full in less than this is told of. */
const LEAST_HOURS = 7 * 24

export interface LogState {
  readonly damage: string | undefined
  readonly isUnwritable: boolean
  /** Agents that were refused unusually often, and how often in their hour. */
  readonly refused: readonly { readonly agent: string; readonly count: number }[]
  /** Whether at the pace of this hour the log would be full, and forget, in less than a week. */
  readonly isFilling: boolean
}

/** What the owner should know about the log. */
export function logWarnings({ damage, isUnwritable, refused, isFilling }: LogState): AuditWarning[] {
  const warnings: AuditWarning[] = []
  if (damage !== undefined)
    warnings.push({
      code: 'LOG_DAMAGED',
      message: `The log of activity was changed or damaged: ${damage}.`,
      action:
        'See what can still be trusted: tollgate vault activity verify. If nobody of yours did it, restore a backup and give your agents new tokens.',
    })
  if (isUnwritable)
    warnings.push({
      code: 'LOG_UNWRITABLE',
      message: 'The log of activity could not be written, so requests are refused.',
      action: 'Make room on the disk of the vault; it goes on by itself.',
    })
  for (const { agent, count } of refused)
    warnings.push({
      code: 'LOG_REFUSALS',
      message: `The agent ${agent} was refused ${hundreds(count)} times or more within an hour.`,
      action: `See what it asks for: tollgate vault activity --agent ${agent}. It may be misled, or need another scope or rule.`,
    })
  if (isFilling)
    warnings.push({
      code: 'LOG_GROWS',
      message: 'The log of activity grows so fast that it would hold less than a week.',
      action:
        'See who asks so much: tollgate vault activity. Lower that agent’s requests a minute, or raise log.maxMegabytes.',
    })
  return warnings
}

/** Rounded down, so that one more refusal is no other warning. */
function hundreds(count: number): string {
  const digits = 10 ** Math.floor(Math.log10(count))
  return (Math.floor(count / digits) * digits).toLocaleString('en')
}

/** Tells listeners of each warning once, until it is over and comes again. */
export class Alarms {
  readonly #warnings: () => readonly AuditWarning[]
  readonly #listeners = new Set<(warning: AuditWarning) => void>()
  #known = new Set<string>()

  constructor(warnings: () => readonly AuditWarning[]) {
    this.#warnings = warnings
  }

  /** Who begins to listen hears of what is there already. */
  listen(listener: (warning: AuditWarning) => void): () => void {
    this.#listeners.add(listener)
    for (const warning of this.#warnings()) listener(warning)
    return () => void this.#listeners.delete(listener)
  }

  look(): void {
    const now = this.#warnings()
    const known = this.#known
    this.#known = new Set(now.map(({ message }) => message))
    for (const warning of now) {
      if (known.has(warning.message)) continue
      for (const listener of this.#listeners) listener(warning)
    }
  }
}

/** How fast a log grows, by what was written in the present hour or the one before. */
export class FillRate {
  readonly #maxBytes: number
  #sinceMs = 0
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  note(bytes: number, nowMs: number): void {
    if (nowMs - this.#sinceMs < hourMs && nowMs >= this.#sinceMs) this.#bytes += bytes
    else {
      this.#sinceMs = nowMs
      this.#bytes = bytes
    }
  }

  /** Whether at this pace the log would be full, and forget, in less than a week. */
  isFilling(nowMs: number): boolean {
    return nowMs - this.#sinceMs < 2 * hourMs && this.#bytes * LEAST_HOURS > this.#maxBytes
  }
}
