import type pg from 'pg'
import { createMessages } from '../../adapters/store/postgres/mailbox.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { Mailbox } from '../../core/ports/store/mailbox.ts'
import type { Owner, Scheduler } from './scheduler.ts'
import type { Situation } from './world.ts'

/** What has not been flushed for so long a server that crashes may have lost. */
const UNFLUSHED_MS = 600

interface Row {
  readonly id: number
  readonly recipient: number
  readonly sender: number
  readonly body: Buffer
  readonly atMs: number
}

export interface MailboxTableDeps {
  readonly scheduler: Scheduler
  fails(probability: number): boolean
  see(situation: Situation): void
  /** A statement on its way to the server and back, either of which may fail. */
  run(owner: Owner, name: string, statement: () => unknown): Promise<unknown>
}

/**
 * The server's end of the letters of PostgreSQL: a table, and notices that may be lost. What processes do with it is the
 * adapter's own code; of its SQL the three statements are known that it has.
 */
export interface MessageTable {
  /** The letters as one process reaches them. */
  of(owner: Owner): Mailbox
  /** The server is there again, without what it had not written to its log; no listener was notified meanwhile. */
  restarted(): void
}

export function createMessageTable({ scheduler, fails, see, run }: MailboxTableDeps): MessageTable {
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

  function take([recipient, outcome]: readonly [number, readonly number[]]) {
    rows = rows.filter(({ id }) => !outcome.includes(id))
    return { rows: rows.filter((row) => row.recipient === recipient).slice(0, 100) }
  }

  return {
    of(owner) {
      const query = (text: string, values: never) => {
        if (text.startsWith('INSERT INTO messages')) return run(owner, 'post', () => insert(values))
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
      return createMessages({ query } as unknown as pg.Pool, notices as never, silentLog)
    },
    restarted() {
      if (scheduler.chance(0.5)) rows = rows.filter(({ atMs }) => scheduler.nowMs - atMs > UNFLUSHED_MS)
      scheduler.at(scheduler.between(100, 5_000), null, () => tell(null))
    },
  }
}
