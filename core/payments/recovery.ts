import { setTimeout as sleep } from 'node:timers/promises'
import type { NetworkId } from '../domain/network.ts'
import { openStates, type PaymentRecord, type PaymentState } from '../domain/payment.ts'
import type { Lease, Leases } from '../ports/store/leases.ts'
import { createRecoveryPage, type RecoveryParts as PageParts } from './recoveryPage.ts'

export interface RecoveryParts extends PageParts {
  readonly leases: Leases
}

export interface RecoveryOptions {
  /** Between two looks for what is due, in ms. */
  readonly intervalMs: number
  /** How long stored answers are kept at most, in ms; then a payment that was never answered is owed back. */
  readonly keepAnswersMs: number
  /**
   * How long answers that were delivered are kept after their payment's claim, in ms, asked anew each time: for as long as
   * a repeated call gets them; and ten minutes more, for clocks that are ahead.
   */
  readonly keepDeliveredMs: () => number
  /** How long the signed bytes of what is over are kept, in ms: for whoever has to find out what went wrong. */
  readonly keepSignedMs: number
}

const defaultRecoveryOptions: RecoveryOptions = {
  intervalMs: 1_000,
  keepAnswersMs: 86_400_000,
  keepDeliveredMs: () => 900_000,
  keepSignedMs: 7 * 86_400_000,
}

/**
 * Finishes or fails what a crash, a timeout or a reorganisation left open: what is due by the store's clock, in batches,
 * and what stays open is put off. One process of the installation does it at a time; two would do no harm, because every
 * step is conditional and may be repeated.
 */
export interface Recovery {
  /** Everything that is due, once. @returns how many payments moved */
  round(): Promise<number>
  /** Loops until the signal, each by itself: a chain that is away holds up nobody else's payments. */
  run(signal: AbortSignal): Promise<void>
}

/** Rows that are worked on together. */
const PAGE = 500
/** The lease of the process that runs the loops, in ms; renewed each fifth of that. */
const LEASE_MS = 10_000
const STRAYS_MS = 10_000
const HOUSEKEEPING_MS = 60_000
/**
 * Payments whose signed bytes, or delivered answers, are forgotten at once, some ms of the writer's work, and the pause between
 * two such steps.
 */
const FORGOTTEN_AT_ONCE = 250
const FORGETTING_MS = 1_000
/** A clock may be ahead by so much, and be set back: what was forgotten by then does not come back with it. */
const AHEAD_MS = 600_000

const unresolved = ['settling', 'pending', 'reorged'] as const satisfies readonly PaymentState[]
const concluded = [
  'settled',
  'delivered',
  'refund_due',
  'refunded',
  'failed_final',
] as const satisfies readonly PaymentState[]

/** Does some work that is due. @returns how many rows it saw, and how many of them moved */
type Step = () => Promise<{ readonly seen: number; readonly moved: number }>

export function createRecovery(parts: RecoveryParts, options: Partial<RecoveryOptions> = {}): Recovery {
  const { books, leases, chains, lease, clock, log } = parts
  const { intervalMs, keepAnswersMs, keepDeliveredMs, keepSignedMs } = {
    ...defaultRecoveryOptions,
    ...options,
  }
  const page = createRecoveryPage(parts)

  const due =
    (
      work: (records: readonly PaymentRecord[]) => Promise<number>,
      states: readonly PaymentState[],
      network?: NetworkId,
    ): Step =>
    async () => {
      const of = network === undefined ? {} : { network }
      const records = await books.due({ states, limit: PAGE, ...of })
      return { seen: records.length, moved: records.length === 0 ? 0 : await work(records) }
    }

  const adopt: Step = async () => ({ seen: await books.adopt(lease.current, openStates, PAGE), moved: 0 })
  const free = due(page.free, ['claimed'])
  const dueAnywhere = due(page.putOffStrays, [...unresolved, ...concluded])
  /** A page full of others' rows is no reason to look again at once: they make way. */
  const strays: Step = async () => ({ ...(await dueAnywhere()), seen: 0 })
  const resolveOn = (network: NetworkId) => due(page.resolve, unresolved, network)
  const confirmOn = (network: NetworkId) => due(page.confirm, concluded, network)

  /** What was never fetched is owed back, and then old answers are forgotten. */
  const housekeep: Step = async () => {
    const updatedBeforeMs = clock.now() - keepAnswersMs
    const old = await books.list({ states: ['settled'], updatedBeforeMs, limit: PAGE })
    const moved = await page.owe(old)
    const forgotten = await books.forgetAnswers(updatedBeforeMs, PAGE)
    return { seen: Math.max(moved, forgotten), moved }
  }

  /** Up to here what was signed is forgotten; what had to stay is looked at again by the next process. */
  let forgottenUpTo = 0
  async function forgetSigned(): Promise<boolean> {
    const last = await books.forgetSigned(clock.now() - keepSignedMs, forgottenUpTo, FORGOTTEN_AT_ONCE)
    if (last > 0) forgottenUpTo = last
    return last > 0
  }

  /** A pass over the answers of what was claimed before some time: how far it got. */
  let pass: { readonly claimedBeforeMs: number; readonly upTo: number } | undefined
  /**
   * Answers that were delivered go in passes, each over all that are kept: what is delivered late, or was claimed anew in the
   * row of a payment that had been rejected, stands behind those that are gone. What is delivered after a pass went by goes
   * with a later one, at the latest with everything that has not moved for `keepAnswersMs`.
   */
  async function forgetDelivered(): Promise<boolean> {
    const keptFromMs = clock.now() - keepDeliveredMs() - AHEAD_MS
    const { claimedBeforeMs, upTo } = pass ?? { claimedBeforeMs: keptFromMs, upTo: 0 }
    const last = await books.forgetDelivered(claimedBeforeMs, upTo, FORGOTTEN_AT_ONCE)
    pass = last > 0 ? { claimedBeforeMs, upTo: last } : undefined
    return last > 0
  }

  const networks = (): NetworkId[] => [...new Set(chains.settlers.map(({ network }) => network))]

  /** Until less than a page is left. */
  async function drain(step: Step): Promise<number> {
    let total = 0
    for (;;) {
      const { seen, moved } = await step()
      total += moved
      if (seen < PAGE) return total
    }
  }

  async function run(signal: AbortSignal): Promise<void> {
    let held: Lease | undefined
    const pause = (ms: number) => sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)

    /** Works off what is due, for as long as this process is the one that does. */
    async function loop(name: string, step: Step, pauseMs: number): Promise<void> {
      while (!signal.aborted) {
        let isMore = false
        try {
          if (held !== undefined) isMore = (await step()).seen === PAGE
        } catch (err) {
          log.warn({ err, loop: name }, 'a loop of the recovery failed; trying again')
        }
        if (!isMore) await pause(held === undefined ? Math.min(pauseMs, intervalMs) : pauseMs)
      }
    }

    async function hold(): Promise<void> {
      while (!signal.aborted) {
        try {
          if (held === undefined || !(await leases.renew(held, LEASE_MS)))
            held = await leases.take('recovery', LEASE_MS)
        } catch (err) {
          log.warn({ err }, 'could not say who recovers payments; trying again')
        }
        await pause(held === undefined ? intervalMs : LEASE_MS / 5)
      }
      if (held !== undefined) await leases.release(held).catch(() => undefined)
    }

    /** Goes on while there is more, and never so fast that sales would wait for it. */
    async function forget(what: string, someOfIt: () => Promise<boolean>): Promise<void> {
      while (!signal.aborted) {
        let isMore = false
        try {
          isMore = held !== undefined && (await someOfIt())
        } catch (err) {
          log.warn({ err }, `could not forget ${what}; trying again`)
        }
        await pause(isMore ? FORGETTING_MS : HOUSEKEEPING_MS)
      }
    }

    /** Starts the loops of each network, and those of one that can be settled on later. */
    async function watchNetworks(): Promise<void> {
      const started = new Set<NetworkId>()
      const running: Promise<void>[] = []
      while (!signal.aborted) {
        for (const network of networks()) {
          if (started.has(network)) continue
          started.add(network)
          running.push(loop(`open payments of ${network}`, resolveOn(network), intervalMs))
          running.push(loop(`reorganisations of ${network}`, confirmOn(network), intervalMs))
        }
        await pause(intervalMs)
      }
      await Promise.all(running)
    }

    await Promise.all([
      hold(),
      loop('adopt', adopt, intervalMs),
      loop('free', free, intervalMs),
      watchNetworks(),
      loop('strays', strays, STRAYS_MS),
      loop('housekeeping', housekeep, HOUSEKEEPING_MS),
      forget('what was signed', forgetSigned),
      forget('answers that were delivered', forgetDelivered),
    ])
  }

  return {
    async round() {
      await drain(adopt)
      let moved = await drain(free)
      for (const network of networks()) {
        moved += await drain(resolveOn(network))
        moved += await drain(confirmOn(network))
      }
      await strays()
      moved += await drain(housekeep)
      while (await forgetSigned());
      while (await forgetDelivered());
      return moved
    },
    run,
  }
}
