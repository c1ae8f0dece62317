import { setTimeout as sleep } from 'node:timers/promises'
import type { NetworkId } from '../../../core/domain/network.ts'
import { bookedNumbers } from '../../../core/payments/bookedNumbers.ts'
import { type KeyLease, leaseOfKey } from '../../../core/payments/keyLease.ts'
import type { OwnKey, Settler } from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Books } from '../../../core/ports/store/books.ts'
import type { Lease, Leases } from '../../../core/ports/store/leases.ts'
import type { KeySharing } from './keySharing.ts'
import { tellOfOlderCopy } from './olderCopy.ts'

/** Between two looks whether this process still has a key, and what others did about its payments. */
const KEY_MS = 2_000
/** Between two looks whether another one has left it. */
const FREE_KEY_MS = 1_000

/** Takes up what a settler has to know, and goes on doing so. */
export interface TakeUp {
  /** Once, before the first call. */
  begin(): Promise<void>
  /** Until the signal. */
  run(signal: AbortSignal): Promise<void>
}

export interface KeyHolderParts {
  readonly books: Pick<Books, 'openAttempts' | 'minedAttempts' | 'list'>
  readonly leases: Leases
  /** Undefined where nobody hands it payments. */
  readonly keys: Pick<KeySharing, 'holds' | 'lost'> | undefined
  readonly log: Log
}

/**
 * A settler that only one process of the installation may have at a time: the others hand it their payments. It has as many of
 * the settler's keys as nobody else has.
 */
export function createKeyHolder(settler: Settler, { books, leases, keys, log }: KeyHolderParts): TakeUp {
  const { id, network } = settler
  const desk = leaseOfKey(leases, id)
  const taken = (settler.keys ?? [settler]).map((key) =>
    createTakenKey({ network, key, desk, isDesk: key.id === id, books, leases, log }),
  )
  /** The leases under which others are heard. */
  let heardBy = ''
  let isTold = false
  /** Who has the desk may have none of the keys: a gateway with another list has them. */
  const canSettle = () => taken.some(({ started }) => started !== undefined)
  async function look(): Promise<void> {
    const held = await desk.hold()
    if (held === undefined) {
      if (heardBy !== '') keys?.lost(settler)
      heardBy = ''
      for (const key of taken) await key.leave()
      if (!isTold)
        log.info(
          { network, settler: id },
          'another process of this installation settles with this key; what is paid here is handed to it',
        )
      isTold = true
      return
    }
    await whileHolding(() => Promise.all(taken.map((key) => key.look(held))))
    const heldLeases = [held, ...taken.flatMap((key) => key.held ?? [])]
    const isHeld = () => desk.isHeld && canSettle()
    // A process that stood still meanwhile opens no desk now, and has to when it has renewed its lease, whose number is the same.
    const hearing = [...new Set(heldLeases.map((lease) => lease.id)), isHeld()].join()
    if (hearing === heardBy) return
    keys?.holds(settler, heldLeases, isHeld)
    heardBy = hearing
    if (!canSettle()) return
    if (isTold) log.info({ network, settler: id }, 'this process settles with this key now')
    isTold = false
  }
  /** A node that takes its time must not cost this process the keys. */
  async function whileHolding<T>(work: () => Promise<T>): Promise<T> {
    const renew = () => {
      void desk.hold().catch(() => undefined)
      for (const key of taken) key.renew()
    }
    const renewing = setInterval(renew, KEY_MS)
    try {
      return await work()
    } finally {
      clearInterval(renewing)
    }
  }
  const lookSafely = () =>
    look().catch((err: unknown) => log.warn({ err, network }, 'could not say who settles; trying again'))
  return {
    begin: lookSafely,
    async run(signal) {
      while (!signal.aborted) {
        const hasAll = taken.every(({ started }) => started !== undefined)
        await pause(hasAll ? KEY_MS : FREE_KEY_MS, signal)
        if (!signal.aborted) await lookSafely()
      }
      keys?.lost(settler)
      const leave = async () => {
        for (const key of taken) await key.leave()
        await desk.release()
      }
      await leave().catch((err: unknown) => log.warn({ err, network }, 'could not give a key back'))
    },
  }
}

/** Tells a settler, or one of its keys, what a former process left. @returns false when it can't settle yet */
export async function takeUp(
  network: NetworkId,
  key: Pick<OwnKey, 'id' | 'start'>,
  books: Pick<Books, 'openAttempts' | 'minedAttempts' | 'list'>,
  log: Log,
  mayGoOn?: () => boolean,
): Promise<boolean> {
  try {
    const attempts = await Promise.all([books.openAttempts(key.id), books.minedAttempts(key.id)])
    await key.start?.(attempts.flat(), mayGoOn, () => bookedNumbers(books, network, key.id))
    return true
  } catch (err) {
    log.warn({ err, network }, 'can not settle here yet; trying again')
    return false
  }
}

interface TakenKeyParts extends Pick<KeyHolderParts, 'books' | 'leases' | 'log'> {
  readonly network: NetworkId
  /** A key, or a settler that has no more than one. */
  readonly key: Pick<OwnKey, 'id' | 'start' | 'followUp'> & Partial<Pick<OwnKey, 'look'>>
  /** The lease of the settler. */
  readonly desk: KeyLease
  /** That is this key's own as well: the settler has no other. */
  readonly isDesk: boolean
}

function createTakenKey({ network, key, desk, isDesk, books, leases, log }: TakenKeyParts) {
  const { id } = key
  const lease = isDesk ? desk : leaseOfKey(leases, id)
  const followUp = async () => key.followUp?.(() => books.openAttempts(id))
  let held: Lease | undefined
  let started: Lease | undefined
  let isTold = false
  let telling: Promise<void> | undefined
  /** A node may take longer for it than this process has the key: what it says then is what it would say to a second question. */
  const tellOnce = () => {
    telling ??= tellOfOlderCopy(network, key, books, log).finally(() => (telling = undefined))
  }
  return {
    /** Its lease, while that is this process's. */
    get held() {
      return held
    },
    /** The lease under which it was started; undefined while it is not this process's. */
    get started() {
      return started
    },
    async look(deskLease: Lease): Promise<void> {
      held = isDesk ? deskLease : await lease.hold()
      if (held === undefined) {
        started = undefined
        if (!isTold)
          log.warn({ network, key: id }, 'another process has this settling key; it is passed over')
        isTold = true
        return
      }
      isTold = false
      if (held.id !== started?.id) {
        started = undefined
        if (!(await takeUp(network, key, books, log, () => desk.isHeld && lease.isHeld))) return
        started = held
        tellOnce()
      }
      await followUp()
    },
    renew(): void {
      if (!isDesk && lease.isHeld) void lease.hold().catch(() => undefined)
    },
    async leave(): Promise<void> {
      started = undefined
      held = undefined
      if (!isDesk) await lease.release()
    },
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)
