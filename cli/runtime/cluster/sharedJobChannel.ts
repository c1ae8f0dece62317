import { deserialize, serialize } from 'node:v8'
import { createJobChannel } from '../../../adapters/memory/changes.ts'
import { startJob } from '../../../core/jobs/job.ts'
import { type HeldLease, leaseOf } from '../../../core/payments/leases.ts'
import type { JobChannel } from '../../../core/ports/jobChannel.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Lease, Leases } from '../../../core/ports/store/leases.ts'
import type { Mailbox } from '../../../core/ports/store/mailbox.ts'

/**
 * Time between two checks of which process runs the background jobs, and between renewals of this process's lease on them, in
 * ms.
 */
const CHECK_MS = 1_000
/**
 * Maximum number of notes that wait while no process runs the jobs. Further notes are dropped, just as a process that dies
 * loses its notes.
 */
const MAX_WAITING = 1_000
const LEASE_NAME = 'jobs'

export interface SharedJobChannelDeps {
  readonly mailbox: Mailbox
  readonly leases: Leases
  /** The lease of this process, the sender of its notes. */
  readonly lease: Pick<HeldLease, 'current'>
  /** Whether this process may run the jobs. */
  readonly runsJobs: boolean
  readonly log: Log
}

interface Posted {
  readonly topic: string
  readonly note: unknown
}

/**
 * The channel from every process of an installation to the process that runs the background jobs. The promise resolves once it
 * is known whether this process runs them.
 */
export async function createSharedJobChannel({
  mailbox,
  leases,
  lease,
  runsJobs,
  log,
}: SharedJobChannelDeps): Promise<JobChannel & { close(): Promise<void> }> {
  const local = createJobChannel(log)
  const own = leaseOf(leases, LEASE_NAME)
  let held: Lease | undefined
  let endListening = (): void => undefined
  /** The lease id of another process that runs the jobs. */
  let holder: number | undefined
  let waiting: Posted[] = []

  function listenAt(next: Lease | undefined): void {
    if (next?.id === held?.id) return
    endListening()
    held = next
    endListening =
      next === undefined
        ? () => undefined
        : mailbox.listen(next.id, ({ body }) => {
            const { topic, note } = deserialize(body) as Posted
            local.post(topic, note)
          })
  }

  function send(to: number, posted: readonly Posted[]): void {
    const from = lease.current.id
    mailbox
      .post(posted.map((one) => ({ to, from, body: serialize(one) })))
      .catch((err: unknown) =>
        log.warn({ err }, 'notes to the process that runs the background jobs were lost'),
      )
  }

  function post(topic: string, note: unknown): void {
    if (own.isHeld) return local.post(topic, note)
    if (holder !== undefined) return send(holder, [{ topic, note }])
    if (waiting.length < MAX_WAITING) waiting.push({ topic, note })
  }

  async function check(): Promise<void> {
    if (runsJobs) listenAt(await own.hold())
    holder = held === undefined ? (await leases.holderOf(LEASE_NAME))?.id : undefined
    if (held === undefined && holder === undefined) return
    const late = waiting
    waiting = []
    for (const { topic, note } of late) post(topic, note)
  }

  const job = startJob({ name: 'find the process that runs the jobs', everyMs: CHECK_MS, log, run: check })
  await job.runNow()
  return {
    post,
    listen: local.listen,
    get isHere() {
      return own.isHeld
    },
    async close() {
      await job.stop()
      endListening()
      await own.release().catch((err: unknown) => log.warn({ err }, 'could not release the background jobs'))
    },
  }
}
