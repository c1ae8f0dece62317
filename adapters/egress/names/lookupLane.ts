/**
 * Lets so many pieces of work run at once and so many wait, and fails what comes beyond, or waits for too long.
 *
 * It is for work that holds one of Node's few threads, which everything in the process shares.
 */
export class LookupLane {
  readonly #limits: LaneLimits
  readonly #waiting = new Set<() => void>()
  #running = 0

  constructor(limits: LaneLimits) {
    this.#limits = limits
  }

  /**
   * @param waitMs how long the work may wait for its turn: after that nobody wants its outcome
   * @param signal ends the wait; work that has begun goes on
   * @throws {Error} what `work` fails with; `EAI_AGAIN` when its turn did not come
   */
  async run<T>(work: () => Promise<T>, waitMs: number, signal: AbortSignal): Promise<T> {
    if (this.#running >= this.#limits.atOnce) await this.#turn(waitMs, signal)
    else this.#running++
    try {
      return await work()
    } finally {
      const next = this.#waiting.values().next().value
      if (next === undefined) this.#running--
      else next()
    }
  }

  /** Resolves once the place of another is this one's. */
  #turn(waitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#waiting.size >= this.#limits.waiting) {
      throw tooBusy(`${this.#limits.waiting} names wait for the system's resolver already`)
    }
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', aborted)
        this.#waiting.delete(take)
      }
      const take = () => {
        end()
        resolve()
      }
      const giveUp = (why: string) => {
        end()
        reject(tooBusy(why))
      }
      const aborted = () => giveUp('the way out is closed')
      const timer = setTimeout(giveUp, waitMs, `the system's resolver had no place for it in ${waitMs} ms`)
      signal.addEventListener('abort', aborted)
      this.#waiting.add(take)
      if (signal.aborted) aborted()
    })
  }
}

export interface LaneLimits {
  readonly atOnce: number
  readonly waiting: number
}

function tooBusy(why: string): Error {
  return Object.assign(new Error(`The name was not looked up: ${why}.`), { code: 'EAI_AGAIN' })
}
