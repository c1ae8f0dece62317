import type pg from 'pg'
import { createLetters } from '../../adapters/postgres/letters.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { Letters } from '../../core/ports/store/letters.ts'
import type { Owner, Scheduler } from './scheduler.ts'
import type { Sight } from './world.ts'

/** What has not been flushed for so long a server that crashes may have lost. */
const UNFLUSHED_MS = 600

interface Row {
  readonly id: number
  readonly recipient: number
  readonly sender: number
  readonly body: Buffer
  readonly atMs: number
}

export interface LetterTableParts {
  readonly scheduler: Scheduler
  fails(probability: number): boolean
  see(sight: Sight): void
  /** A statement on its way to the server and back, either of which may fail. */
  run(owner: Owner, name: string, statement: () => unknown): Promise<unknown>
}

/**
 * The server's end of the letters of PostgreSQL: a table, and notices that may be lost. What processes do with it is the
 * adapter's own code; of its SQL the three statements are known that it has.
 */
export interface LetterTable {
  /** The letters as one process reaches them. */
  of(owner: Owner): Letters
  /** The server is there again, without what it had not written to its log; nobody was told anything meanwhile. */
  restarted(): void
}

export function createLetterTable({ scheduler, fails, see, run }: LetterTableParts): LetterTable {
  let rows: Row[] = []
  let last = 0
  const listeners = new Map<(detail: string | null) => void, Owner>()

  function tell(detail: string | null): void {
    for (const [listener, owner] of listeners) {
      if (owner.isDead) listeners.delete(listener)
      // A notice comes later than its statement, or never.
      else if (detail !== null && fails(0.1)) see('a notice is lost')
      else scheduler.at(scheduler.between(1, 3), owner, () => listener(detail))
    }
  }

  function insert([recipients, senders, bodies]: readonly [number[], number[], Buffer[]]) {
    for (const [i, recipient] of recipients.entries()) {
      const row = { recipient, sender: senders[i]!, body: bodies[i]!, atMs: scheduler.nowMs }
      // "They may be lost", says who reads them; and to have one twice must not be worse.
      if (fails(0.004)) {
        see('a letter is lost')
        continue
      }
      rows.push({ id: ++last, ...row })
      if (!fails(0.004)) continue
      rows.push({ id: ++last, ...row })
      see('a letter comes twice')
    }
    return { rows: [] }
  }

  function take([recipient, heard]: readonly [number, readonly number[]]) {
    rows = rows.filter(({ id }) => !heard.includes(id))
    return { rows: rows.filter((row) => row.recipient === recipient).slice(0, 100) }
  }

  return {
    of(owner) {
      const query = (text: string, values: never) => {
        if (text.startsWith('INSERT INTO letters')) return run(owner, 'post', () => insert(values))
        if (text.startsWith('WITH gone AS')) return run(owner, 'hear', () => take(values))
        return run(owner, 'prune', () => ({ rows: [] }))
      }
      const notices = {
        subscribe(_topic: string, listener: (detail: string | null) => void) {
          listeners.set(listener, owner)
          return () => listeners.delete(listener)
        },
        tell: async (_pool: unknown, _topic: string, detail: string) => tell(detail),
        async close() {},
      }
      return createLetters({ query } as unknown as pg.Pool, notices as never, silentLog)
    },
    restarted() {
      if (scheduler.chance(0.5)) rows = rows.filter(({ atMs }) => scheduler.nowMs - atMs > UNFLUSHED_MS)
      scheduler.at(scheduler.between(100, 5_000), null, () => tell(null))
    },
  }
}
