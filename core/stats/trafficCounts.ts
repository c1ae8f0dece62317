import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Job, startJob } from '../jobs/job.ts'
import type { Log } from '../ports/log.ts'
import { HOUR_MS, type Stats, type Traffic } from '../ports/store/stats.ts'

type Kind = 'views' | 'challenges' | 'calls' | 'failedCalls'
/** The counts of one link in one hour. Callers increase them directly. */
export type Counted = Pick<Traffic, 'linkId'> & { -readonly [K in Kind | 'hour']: Traffic[K] }

/** Maximum counts, by link and hour, that are kept for a retry after a failed write. */
const MAX_UNWRITTEN = 10_000
/** Maximum rows in one commit, so that payments do not wait for the database's writer while counts of many links are written. */
const WRITTEN_AT_ONCE = 25
/** Maximum rows in one commit while the process stops and waits for the last counts. They take the database's writer about 8 ms. */
const LAST_AT_ONCE = 250
/** Maximum rows that are taken, or sorted, in one turn of the event loop. */
const ROWS_PER_TURN = 500
/** The value of `hour` in counts that must no longer be increased. */
const WRITTEN = -1
/**
 * Maximum links whose counts are written per second. Each takes the database's writer about 90 µs, as much as four of the calls
 * that it counts, because it touches some database pages at random places. A link that waits continues counting, so that many calls
 * become one row.
 */
const LINKS_A_SECOND = 250

/**
 * Counts the calls of links in memory, and writes the counts at intervals. If the process is killed, the counts since the last
 * {@link flush}, and the counts that the flush left, are lost. Each process counts separately, and the database adds the counts.
 */
export class TrafficCounts {
  /** Counts by link, with one entry for each hour. Links that have waited longest come first. */
  readonly #changed = new Map<string, Counted[]>()
  #unwritten: Traffic[] = []
  /** The running flush. */
  #writing: Promise<void> | undefined
  readonly #stats: Pick<Stats, 'addTraffic'>
  readonly #log: Log

  constructor(stats: Pick<Stats, 'addTraffic'>, log: Log) {
    this.#stats = stats
    this.#log = log
  }

  /**
   * The counts of a link in the hour of that time. The caller may increase them synchronously. They are replaced when they are
   * written. A link without calls has no counts.
   *
   * @param last the previous result for the link. It is returned after one comparison if it is still valid
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

  /** Starts a job that writes the counts. Each run writes as many links as the database can write while it serves calls. */
  flushEvery(ms: number): Job {
    const links = Math.ceil((ms * LINKS_A_SECOND) / 1_000)
    const run = () => this.#writing ?? this.#flush(links)
    return startJob({ name: 'write the counts of calls', everyMs: ms, log: this.#log, run })
  }

  /**
   * Writes the counts of at most `links` links, or of all, after the running flush. Never rejects. If the database fails after its
   * commit, some calls may be counted twice, but none is lost.
   */
  async flush(links = Number.POSITIVE_INFINITY): Promise<void> {
    await this.#flush(links).catch((err: unknown) =>
      this.#log.warn({ err }, 'could not write the counts of calls; trying again'),
    )
  }

  #flush(links: number): Promise<void> {
    const before = this.#writing
    const write = () => this.#write(links)
    // Runs after the running flush, so that counts which that flush could not write are written now.
    const written = before === undefined ? write() : before.then(write, write)
    const writing = written.finally(() => {
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
        await this.#stats.addTraffic(rows.slice(written, written + atOnce))
    } catch (err) {
      this.#unwritten.push(...summed(rows.slice(written)).slice(-MAX_UNWRITTEN))
      throw err
    }
  }

  /**
   * Takes the counts to write. For many links this takes several turns of the event loop, so that no call waits for all of them.
   */
  async #taken(links: number): Promise<Traffic[]> {
    const rows = [...this.#unwritten]
    this.#unwritten = []
    // Links that are called meanwhile come last, and the next flush writes their counts.
    let left = Math.min(links, this.#changed.size)
    for (const [linkId, hours] of this.#changed) {
      if (left-- <= 0) break
      for (const counted of hours) {
        rows.push({ ...counted })
        // A caller that still has these counts must request new ones.
        counted.hour = WRITTEN
      }
      this.#changed.delete(linkId)
      if (left % ROWS_PER_TURN === 0 && left > 0) await nextTurn()
    }
    return rows
  }
}

/** Sorts rows in the order of the database, so that neighbors share pages. This halves the cost of a row if many are written. */
async function inOrder(rows: readonly Traffic[]): Promise<Traffic[]> {
  if (rows.length <= ROWS_PER_TURN) return rows.toSorted(byLink)
  // Ids are random, so rows with the same first characters are few enough to be sorted at once.
  const parts = new Map<string, Traffic[]>()
  for (const [i, row] of rows.entries()) {
    if (i % ROWS_PER_TURN === ROWS_PER_TURN - 1) await nextTurn()
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
    if ((inTurn += part.length) < ROWS_PER_TURN) continue
    inTurn = 0
    await nextTurn()
  }
  return ordered
}

const byLink = (a: Traffic, b: Traffic): number => (a.linkId < b.linkId ? -1 : Number(a.linkId > b.linkId))

/** Adds up rows, so that there is one row for each link and hour. */
function summed(rows: readonly Traffic[]): Traffic[] {
  const rollups = new Map<string, Counted>()
  for (const row of rows) {
    const key = `${row.linkId} ${row.hour}`
    const sum = rollups.get(key)
    if (sum === undefined) rollups.set(key, { ...row })
    else for (const kind of ['views', 'challenges', 'calls', 'failedCalls'] as const) sum[kind] += row[kind]
  }
  return [...rollups.values()]
}
