import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Log } from '../ports/log.ts'
import { type Figures, HOUR_MS, type Traffic } from '../ports/store/figures.ts'

type Kind = 'views' | 'challenges' | 'calls' | 'failedCalls'
/** What is counted of one link within one hour, for whoever adds to it at once. */
export type Counted = Pick<Traffic, 'linkId'> & { -readonly [K in Kind | 'hour']: Traffic[K] }

/** What could not be written is kept and tried again, of so many links and hours. */
const MAX_UNWRITTEN = 10_000
/** Rows that are written in one go: whoever looks at every link of a market keeps no payment waiting for the writer. */
const WRITTEN_AT_ONCE = 25
/** The same when all are written, of which a stop waits for the last: about 8 ms of the writer. */
const LAST_AT_ONCE = 250
/** Rows that are taken, or put in order, in one turn of the event loop. */
const IN_A_TURN = 500
/** The hour of what is not to be added to any more. */
const WRITTEN = -1
/**
 * Links whose counts are written in a second: each is some pages of the store at random places, about 90 µs of the writer, which is as
 * much as four of the calls that it counts. Those that have to wait go on counting, so that many calls of many links become one row each.
 */
const LINKS_A_SECOND = 250

/**
 * Counts the calls of links in memory and has them written now and then: whoever is killed loses what came after the last
 * {@link flush}, and what that one left. Each process counts for itself; the store adds up.
 */
export class TrafficCounts {
  /** By link, one for each hour. Those that have waited longest come first. */
  readonly #changed = new Map<string, Counted[]>()
  #unwritten: Traffic[] = []
  /** What is under way. */
  #writing: Promise<void> | undefined
  readonly #figures: Pick<Figures, 'addTraffic'>
  readonly #log: Log

  constructor(figures: Pick<Figures, 'addTraffic'>, log: Log) {
    this.#figures = figures
    this.#log = log
  }

  /**
   * What is counted of a link in the hour of that time, to be added to before anything else happens: it is written now and then, and
   * counted anew afterwards. Of a link that nobody calls nothing is kept.
   *
   * @param last what it said of the link before: where that still counts, all of it is a look at that
   */
  of(linkId: string, atMs: number, last: Counted | null = null): Counted {
    const hour = Math.floor(atMs / HOUR_MS)
    if (last !== null && last.hour === hour) return last
    const hours = this.#changed.get(linkId)
    if (hours !== undefined && hours[0]!.hour === hour) return hours[0]!
    let found = hours?.find((one) => one.hour === hour)
    if (found === undefined) {
      found = { linkId, hour, views: 0, challenges: 0, calls: 0, failedCalls: 0 }
      if (hours === undefined) this.#changed.set(linkId, [found])
      else hours.push(found)
    }
    return found
  }

  add(linkId: string, kind: Kind, atMs: number, count = 1): void {
    this.of(linkId, atMs)[kind] += count
  }

  /** Has them written so often, with as many links each time as the store takes beside calls. @returns what to clear at the end */
  flushEvery(ms: number): NodeJS.Timeout {
    const links = Math.ceil((ms * LINKS_A_SECOND) / 1_000)
    return setInterval(() => this.#writing ?? void this.flush(links), ms).unref()
  }

  /**
   * Writes the counts of so many links, of all where it is not said, and is over when what was being written is written as well. Never
   * rejects. A store that fails after its commit may count some calls twice, and none is lost.
   */
  async flush(links = Number.POSITIVE_INFINITY): Promise<void> {
    const before = this.#writing
    // Behind it: what could not be written then is written now.
    const written = before === undefined ? this.#write(links) : before.then(() => this.#write(links))
    const writing = written.then(() => {
      if (this.#writing === writing) this.#writing = undefined
    })
    this.#writing = writing
    return writing
  }

  async #write(links: number): Promise<void> {
    const rows = await inOrder(await this.#taken(links))
    const atOnce = Number.isFinite(links) ? WRITTEN_AT_ONCE : LAST_AT_ONCE
    let written = 0
    try {
      for (; written < rows.length; written += atOnce)
        await this.#figures.addTraffic(rows.slice(written, written + atOnce))
    } catch (err) {
      this.#unwritten.push(...summed(rows.slice(written)).slice(-MAX_UNWRITTEN))
      this.#log.warn({ err }, 'could not write how many calls there were; trying again')
    }
  }

  /** What is to be written: of a whole market in several turns of the event loop, so that no call waits for all of it. */
  async #taken(links: number): Promise<Traffic[]> {
    const rows = [...this.#unwritten]
    this.#unwritten = []
    // Those that are called meanwhile come last, and are left for the next time.
    let left = Math.min(links, this.#changed.size)
    for (const [linkId, hours] of this.#changed) {
      if (left-- <= 0) break
      for (const counted of hours) {
        rows.push({ ...counted })
        // Whoever has kept it asks for another one.
        counted.hour = WRITTEN
      }
      this.#changed.delete(linkId)
      if (left % IN_A_TURN === 0 && left > 0) await nextTurn()
    }
    return rows
  }
}

/** As stores keep them: neighbours share pages, which halves what a row costs when many are written. */
async function inOrder(rows: readonly Traffic[]): Promise<Traffic[]> {
  if (rows.length <= IN_A_TURN) return rows.toSorted(byLink)
  // Ids are random: those that begin alike are few enough to be sorted at once.
  const parts = new Map<string, Traffic[]>()
  for (const [i, row] of rows.entries()) {
    if (i % IN_A_TURN === IN_A_TURN - 1) await nextTurn()
    const start = row.linkId.slice(0, 3)
    const part = parts.get(start)
    if (part === undefined) parts.set(start, [row])
    else part.push(row)
  }
  const ordered: Traffic[] = []
  let inTurn = 0
  for (const start of [...parts.keys()].sort()) {
    const part = parts.get(start)!.sort(byLink)
    for (const row of part) ordered.push(row)
    if ((inTurn += part.length) < IN_A_TURN) continue
    inTurn = 0
    await nextTurn()
  }
  return ordered
}

const byLink = (a: Traffic, b: Traffic): number => (a.linkId < b.linkId ? -1 : Number(a.linkId > b.linkId))

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
