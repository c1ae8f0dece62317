import type { NetworkId } from '../domain/network.ts'
import { openStates, type PaymentRecord, type PaymentState } from '../domain/payment.ts'
import { type Job, type NextRun, startJob } from '../jobs/job.ts'
import type { Lease, Leases } from '../ports/store/leases.ts'
import type { RecoveryDeps } from './recoveryDecisions.ts'
import { RecoveryPage } from './recoveryPage.ts'

export interface RecoveryParts extends RecoveryDeps {
  readonly leases: Leases
}

export interface RecoveryOptions {
  /** Pause between two checks for due payments, in ms. */
  readonly intervalMs: number
  /** How long stored responses are kept, in ms. If a response was never delivered in that time, its payment is owed back. */
  readonly keepResponsesMs: number
  /**
   * How long delivered responses are kept after their payment's claim, in ms. It is called for each use, because the configuration
   * may change. It is the time in which a repeated call gets the response, plus ten minutes for clocks that are fast.
   */
  readonly keepDeliveredMs: () => number
  /** How long the signed bytes of concluded payments are kept for the operator's investigations, in ms. */
  readonly keepSignedMs: number
}

const defaultRecoveryOptions: RecoveryOptions = {
  intervalMs: 1_000,
  keepResponsesMs: 86_400_000,
  keepDeliveredMs: () => 900_000,
  keepSignedMs: 7 * 86_400_000,
}

/**
 * Finishes or fails the payments that a crash, a timeout or a reorganization left open. It processes rows that are due by the
 * database's clock in batches, and puts off rows that stay open. Only one process of the installation does this at a time. Two
 * processes would do no harm, because every step is conditional and may be repeated.
 */
export interface Recovery {
  /** Processes all due rows once. @returns how many payments moved */
  round(): Promise<number>
  /** Starts several jobs for each network, so that an unavailable chain does not delay payments on other chains. */
  start(): { stop(): Promise<void> }
}

/** Maximum rows that are processed together. */
const PAGE = 500
/** How long the lease of the recovering process lasts, in ms. The process renews it every fifth of that time. */
const LEASE_MS = 10_000
/**
 * Pause between two checks for payments on networks that are not available, in ms. The next constant is the pause between two
 * deletions of old responses.
 */
const DEFERRED_ELSEWHERE_MS = 10_000
const HOUSEKEEPING_MS = 60_000
/**
 * Maximum payments whose signed bytes or delivered responses are deleted in one step, in which the database can write nothing else
 * for some ms. `FORGETTING_MS` is the pause between two such steps, in ms.
 */
const FORGOTTEN_AT_ONCE = 250
const FORGETTING_MS = 1_000
/**
 * How far a clock may be fast before it is corrected, in ms. It is added to the retention time, because a deletion by a fast clock
 * cannot be undone.
 */
const AHEAD_MS = 600_000

const unresolved = ['settling', 'pending', 'reorged'] as const satisfies readonly PaymentState[]
const concluded = [
  'settled',
  'delivered',
  'refund_due',
  'refunded',
  'failed_final',
] as const satisfies readonly PaymentState[]

/** Processes some of the due rows. @returns how many rows it saw, and how many of them moved */
type Step = () => Promise<{ readonly seen: number; readonly moved: number }>

export function createRecovery(parts: RecoveryParts, options: Partial<RecoveryOptions> = {}): Recovery {
  const { ledger, leases, chains, lease, clock, log } = parts
  const { intervalMs, keepResponsesMs, keepDeliveredMs, keepSignedMs } = {
    ...defaultRecoveryOptions,
    ...options,
  }
  const page = new RecoveryPage(parts)

  const due =
    (
      work: (records: readonly PaymentRecord[]) => Promise<number>,
      states: readonly PaymentState[],
      network?: NetworkId,
    ): Step =>
    async () => {
      const of = network === undefined ? {} : { network }
      const records = await ledger.due({ states, limit: PAGE, ...of })
      return { seen: records.length, moved: records.length === 0 ? 0 : await work(records) }
    }

  const adopt: Step = async () => ({ seen: await ledger.adopt(lease.current, openStates, PAGE), moved: 0 })
  const free = due((records) => page.free(records), ['claimed'])
  const dueAnywhere = due((records) => page.putOffUnreachable(records), [...unresolved, ...concluded])
  /**
   * A full page is not repeated at once, because it may consist of rows on available networks, which the jobs of those networks
   * process.
   */
  const deferredElsewhere: Step = async () => ({ ...(await dueAnywhere()), seen: 0 })
  const resolveOn = (network: NetworkId) => due((records) => page.resolve(records), unresolved, network)
  const confirmOn = (network: NetworkId) => due((records) => page.confirm(records), concluded, network)

  /** Marks payments as owed back if their response was never collected, then deletes old responses. */
  const housekeep: Step = async () => {
    const updatedBeforeMs = clock.now() - keepResponsesMs
    const old = await ledger.list({ states: ['settled'], updatedBeforeMs, limit: PAGE })
    const moved = await page.owe(old)
    const forgotten = await ledger.forgetResponses(updatedBeforeMs, PAGE)
    return { seen: Math.max(moved, forgotten), moved }
  }

  /**
   * Rows up to this number have been processed. It starts at 0 after a restart or when another process takes over, so that rows
   * whose bytes had to be kept are checked again.
   */
  let forgottenUpTo = 0
  async function forgetSigned(): Promise<boolean> {
    const last = await ledger.forgetSigned(clock.now() - keepSignedMs, forgottenUpTo, FORGOTTEN_AT_ONCE)
    if (last > 0) forgottenUpTo = last
    return last > 0
  }

  /** A pass over the responses of payments that were claimed before some time, and the last row that it has processed. */
  let pass: { readonly claimedBeforeMs: number; readonly upTo: number } | undefined
  /**
   * Deletes delivered responses in passes, each over all stored responses. A row that a pass has already processed may get a
   * delivered response later, because it is delivered late, or because its rejected payment is claimed again. A later pass deletes
   * that response, or it is deleted with all responses whose payment has not changed for `keepResponsesMs`.
   */
  async function forgetDelivered(): Promise<boolean> {
    const retainedFromMs = clock.now() - keepDeliveredMs() - AHEAD_MS
    const { claimedBeforeMs, upTo } = pass ?? { claimedBeforeMs: retainedFromMs, upTo: 0 }
    const last = await ledger.forgetDelivered(claimedBeforeMs, upTo, FORGOTTEN_AT_ONCE)
    pass = last > 0 ? { claimedBeforeMs, upTo: last } : undefined
    return last > 0
  }

  const networks = (): NetworkId[] => [...new Set(chains.settlers.map(({ network }) => network))]

  /** Repeats a step until its page is not full. */
  async function drain(step: Step): Promise<number> {
    let total = 0
    for (;;) {
      const { seen, moved } = await step()
      total += moved
      if (seen < PAGE) return total
    }
  }

  function start() {
    let held: Lease | undefined
    const jobs: Job[] = []

    function every(name: string, everyMs: number, run: () => Promise<NextRun | void>): Job {
      const job = startJob({ name: `recovery: ${name}`, everyMs, startsNow: true, log, run })
      jobs.push(job)
      return job
    }

    /** Processes due rows while this process holds the lease. */
    function workOff(name: string, step: Step, pauseMs: number): void {
      every(name, pauseMs, async () => {
        if (held === undefined) return { inMs: Math.min(pauseMs, intervalMs) }
        if ((await step()).seen === PAGE) return { inMs: 0 }
      })
    }

    /** Deletes a part at a time, with pauses, because sales need to write to the database too. */
    function forget(what: string, forgetSome: () => Promise<boolean>): void {
      every(`forget ${what}`, HOUSEKEEPING_MS, async () => {
        if (held !== undefined && (await forgetSome())) return { inMs: FORGETTING_MS }
      })
    }

    const leaseJob = every('hold the lease', intervalMs, async () => {
      if (held === undefined || !(await leases.renew(held, LEASE_MS)))
        held = await leases.take('recovery', LEASE_MS)
      if (held !== undefined) return { inMs: LEASE_MS / 5 }
    })
    workOff('take over payments of processes that ended', adopt, intervalMs)
    workOff('release abandoned claims', free, intervalMs)
    workOff('put off payments on networks that are not open', deferredElsewhere, DEFERRED_ELSEWHERE_MS)
    workOff('delete old responses', housekeep, HOUSEKEEPING_MS)
    forget('signed bytes', forgetSigned)
    forget('delivered responses', forgetDelivered)
    // The networks whose jobs run. A network that becomes available later gets its jobs at that time.
    const started = new Set<NetworkId>()
    every('start networks that opened', intervalMs, async () => {
      for (const network of networks()) {
        if (started.has(network)) continue
        started.add(network)
        workOff(`finish open payments on ${network}`, resolveOn(network), intervalMs)
        workOff(`check for reorganizations on ${network}`, confirmOn(network), intervalMs)
      }
    })

    async function release(): Promise<void> {
      await leaseJob.stop()
      if (held !== undefined) await leases.release(held).catch(() => undefined)
    }

    return {
      async stop() {
        await Promise.all([release(), ...jobs.map((job) => job.stop())])
      },
    }
  }

  return {
    async round() {
      await drain(adopt)
      let moved = await drain(free)
      for (const network of networks()) {
        moved += await drain(resolveOn(network))
        moved += await drain(confirmOn(network))
      }
      await deferredElsewhere()
      moved += await drain(housekeep)
      while (await forgetSigned());
      while (await forgetDelivered());
      return moved
    },
    start,
  }
}
