import { setTimeout as sleep } from 'node:timers/promises'
import { transferScheme } from '../../core/payments/bookTransfer.ts'
import { leaseOfKey } from '../../core/payments/keyLease.ts'
import { createRecovery, type RecoveryParts } from '../../core/payments/recovery.ts'
import { createTransferWatch, type Looks } from '../../core/payments/transferWatch.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Settler } from '../../core/ports/settler.ts'
import type { Stack } from './openStack.ts'

const RETRY_MS = 5_000
/** Between two looks whether this process still has a key, or another one has left it, and what others did about its payments. */
const KEY_MS = 2_000

export interface Jobs {
  stop(): Promise<void>
}

/** Takes up what a settler has to know, and goes on doing so. */
interface TakeUp {
  /** Once, before the first call. */
  begin(): Promise<void>
  /** Until the signal. */
  run(signal: AbortSignal): Promise<void>
}

/** Starts what works beside the calls: the settlers' take-up of open attempts, and the recovery of open payments. */
export async function startJobs(
  { ports, store, chains, notes, lease, transferProofs }: Stack,
  log: Log,
): Promise<Jobs> {
  const { payments, purchases, clock } = ports
  const stopped = new AbortController()
  const recovery = createRecovery({
    ...{ books: store.books, leases: store.leases, sessions: store.sessions },
    ...{ payments, purchases, notes, clock, log, lease },
    chains: withTransfers(chains, createTransferWatch(transferProofs, clock)),
  })
  const takeUps = chains.settlers.map((settler) => (settler.isExclusive ? alone(settler) : beside(settler)))
  // Before the first call comes: a settler must know which account nonces are in use before it signs anything new.
  await Promise.all(takeUps.map((one) => one.begin()))
  // Side by side: a chain that is away must not keep the payments of the others open.
  const running = Promise.all([
    recovery.run(stopped.signal),
    ...takeUps.map((one) => one.run(stopped.signal)),
  ])

  /** Tells a settler what a former process left. */
  async function takeUp(settler: Settler, mayGoOn?: () => boolean): Promise<boolean> {
    try {
      await settler.start(await store.books.openAttempts(settler.id), mayGoOn)
      return true
    } catch (err) {
      log.warn({ err, network: settler.network }, 'can not settle here yet; trying again')
      return false
    }
  }

  /** A settler that any number of processes may have. */
  function beside(settler: Settler): TakeUp {
    let isUp = false
    return {
      async begin() {
        isUp = await takeUp(settler)
      },
      async run(signal) {
        while (!isUp && !signal.aborted) {
          await pause(RETRY_MS, signal)
          if (!signal.aborted) isUp = await takeUp(settler)
        }
      },
    }
  }

  /** A settler that only one process of the installation may have at a time: the others take no payments for it. */
  function alone(settler: Settler): TakeUp {
    const key = leaseOfKey(store.leases, settler.id)
    const { network } = settler
    /** Under which lease the settler was started. */
    let startedUnder: number | undefined
    let isTold = false
    async function look(): Promise<void> {
      const held = await key.hold()
      if (held === undefined) {
        if (!isTold)
          log.error(
            { network, settler: settler.id },
            'another gateway process on this database settles with this key; this one takes no payments on the network until that one ends. For more processes on one machine set gateway.workers',
          )
        isTold = true
      } else if (held.id !== startedUnder) {
        startedUnder = undefined
        if (!(await takeUp(settler, () => key.isHeld))) return
        startedUnder = held.id
        if (isTold) log.info({ network, settler: settler.id }, 'this process settles with this key now')
        isTold = false
      } else await settler.followUp?.(() => store.books.openAttempts(settler.id))
    }
    const lookSafely = () =>
      look().catch((err: unknown) => log.warn({ err, network }, 'could not say who settles; trying again'))
    return {
      begin: lookSafely,
      async run(signal) {
        while (!signal.aborted) {
          await pause(KEY_MS, signal)
          if (!signal.aborted) await lookSafely()
        }
        await key.release().catch((err: unknown) => log.warn({ err, network }, 'could not give a key back'))
      },
    }
  }

  return {
    async stop() {
      stopped.abort()
      await running
    },
  }
}

/** Recovery asks about plain transfers as it asks settlers about theirs. */
const withTransfers = (chains: Stack['chains'], watch: Looks): RecoveryParts['chains'] => ({
  assets: chains.assets,
  get settlers() {
    return chains.settlers
  },
  settler: (network, scheme) => (scheme === transferScheme ? watch : chains.settler(network, scheme)),
})

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)
