import { type Figures, HOUR_MS, type Traffic } from '../ports/figures.ts'
import type { Log } from '../ports/log.ts'

type Kind = 'views' | 'challenges' | 'calls' | 'failedCalls'
type Counted = { -readonly [K in keyof Traffic]: Traffic[K] }

/** What could not be written is kept and tried again, of so many links and hours. */
const MAX_UNWRITTEN = 10_000
/** Rows that are written in one go: whoever looks at every link of a market keeps no payment waiting for the writer. */
const WRITTEN_AT_ONCE = 25

/**
 * Counts the calls of links in memory and has them written now and then: whoever is killed loses what came after the last
 * {@link flush}. Each process counts for itself; the store adds up.
 */
export class TrafficCounts {
  #changed: LinkTraffic[] = []
  #unwritten: Traffic[] = []
  readonly #figures: Pick<Figures, 'addTraffic'>
  readonly #log: Log

  constructor(figures: Pick<Figures, 'addTraffic'>, log: Log) {
    this.#figures = figures
    this.#log = log
  }

  ofLink(linkId: string): LinkTraffic {
    return new LinkTraffic(linkId, (traffic) => void this.#changed.push(traffic))
  }

  /** Never rejects. A store that fails after its commit may count some calls twice, and none is lost. */
  async flush(): Promise<void> {
    const rows = [...this.#unwritten, ...this.#changed.flatMap((traffic) => traffic.take())]
    this.#unwritten = []
    this.#changed = []
    let written = 0
    try {
      for (; written < rows.length; written += WRITTEN_AT_ONCE)
        await this.#figures.addTraffic(rows.slice(written, written + WRITTEN_AT_ONCE))
    } catch (err) {
      this.#unwritten.push(...summed(rows.slice(written)).slice(-MAX_UNWRITTEN))
      this.#log.warn({ err }, 'could not write how many calls there were; trying again')
    }
  }
}

/** The calls of one link since the last flush: a call costs an addition. */
export class LinkTraffic {
  readonly #linkId: string
  readonly #changed: (traffic: LinkTraffic) => void
  #hours: Counted[] = []

  /** @param changed told once per flush, when there is something to write */
  constructor(linkId: string, changed: (traffic: LinkTraffic) => void) {
    this.#linkId = linkId
    this.#changed = changed
  }

  add(kind: Kind, atMs: number, count = 1): void {
    this.#at(Math.floor(atMs / HOUR_MS))[kind] += count
  }

  /** What there is to write, and begins anew. */
  take(): Traffic[] {
    const taken = this.#hours
    this.#hours = []
    return taken
  }

  #at(hour: number): Counted {
    const hours = this.#hours
    if (hours.length > 0 && hours[0]!.hour === hour) return hours[0]!
    let found = hours.find((one) => one.hour === hour)
    if (found === undefined) {
      if (hours.length === 0) this.#changed(this)
      hours.push((found = { linkId: this.#linkId, hour, views: 0, challenges: 0, calls: 0, failedCalls: 0 }))
    }
    return found
  }
}

/** One row for each link and hour. */
function summed(rows: readonly Traffic[]): Traffic[] {
  const sums = new Map<string, Counted>()
  for (const row of rows) {
    const key = `${row.linkId} ${row.hour}`
    const sum = sums.get(key)
    if (sum === undefined) sums.set(key, { ...row })
    else for (const kind of ['views', 'challenges', 'calls', 'failedCalls'] as const) sum[kind] += row[kind]
  }
  return [...sums.values()]
}
