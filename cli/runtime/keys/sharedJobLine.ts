import { deserialize, serialize } from 'node:v8'
import { createJobLine } from '../../../adapters/memory/jobLine.ts'
import type { HeldLease } from '../../../core/payments/heldLease.ts'
import { leaseOf } from '../../../core/payments/keyLease.ts'
import type { JobLine } from '../../../core/ports/jobLine.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Lease, Leases } from '../../../core/ports/store/leases.ts'
import type { Letters } from '../../../core/ports/store/letters.ts'

/** Between two looks who does the background work, and two renewals of whoever does. */
const LOOK_MS = 1_000
/** Notes that wait while nobody does it; what comes beyond that is lost, as it would be with a process that died. */
const MAX_WAITING = 1_000
const LEASE_NAME = 'jobs'

export interface SharedJobLineParts {
  readonly letters: Letters
  readonly leases: Leases
  /** This process's own. */
  readonly lease: Pick<HeldLease, 'current'>
  /** Whether this process may be the one. */
  readonly runsJobs: boolean
  readonly log: Log
}

interface Posted {
  readonly topic: string
  readonly note: unknown
}

/**
 * The line from every process of a store to the one of them that does the background work: the one with the lease, at a time.
 * Resolves when it is known whether this is it.
 */
export async function createSharedJobLine({
  letters,
  leases,
  lease,
  runsJobs,
  log,
}: SharedJobLineParts): Promise<JobLine & { close(): Promise<void> }> {
  const local = createJobLine(log)
  const own = leaseOf(leases, LEASE_NAME)
  let held: Lease | undefined
  let endListening = (): void => undefined
  /** Whoever else does it. */
  let holder: number | undefined
  let waiting: Posted[] = []

  function hearAt(next: Lease | undefined): void {
    if (next?.id === held?.id) return
    endListening()
    held = next
    endListening =
      next === undefined
        ? () => undefined
        : letters.listen(next.id, ({ body }) => {
            const { topic, note } = deserialize(body) as Posted
            local.post(topic, note)
          })
  }

  function send(to: number, posted: readonly Posted[]): void {
    const from = lease.current.id
    letters
      .post(posted.map((one) => ({ to, from, body: serialize(one) })))
      .catch((err: unknown) =>
        log.warn({ err }, 'notes to the process that does the background work are lost'),
      )
  }

  function post(topic: string, note: unknown): void {
    if (own.isHeld) return local.post(topic, note)
    if (holder !== undefined) return send(holder, [{ topic, note }])
    if (waiting.length < MAX_WAITING) waiting.push({ topic, note })
  }

  async function look(): Promise<void> {
    if (runsJobs) hearAt(await own.hold())
    holder = held === undefined ? (await leases.holderOf(LEASE_NAME))?.id : undefined
    if (held === undefined && holder === undefined) return
    const late = waiting
    waiting = []
    for (const { topic, note } of late) post(topic, note)
  }

  const lookSafely = () =>
    look().catch((err: unknown) =>
      log.warn({ err }, 'could not say who does the background work; trying again'),
    )
  let looking = lookSafely()
  const timer = setInterval(() => {
    looking = looking.then(lookSafely)
  }, LOOK_MS).unref()
  await looking
  return {
    post,
    hear: local.hear,
    get isHere() {
      return own.isHeld
    },
    async close() {
      clearInterval(timer)
      await looking
      endListening()
      await own.release().catch((err: unknown) => log.warn({ err }, 'could not leave the background work'))
    },
  }
}
