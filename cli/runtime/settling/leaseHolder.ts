import type { NetworkId } from '../../../core/domain/network.ts'
import { startJob } from '../../../core/jobs/job.ts'
import { type KeyLease, leaseOfKey } from '../../../core/payments/leases.ts'
import { ledgerNonces } from '../../../core/payments/ledgerNonces.ts'
import type { OwnKey, Settler } from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Lease, Leases } from '../../../core/ports/store/leases.ts'
import type { Ledger } from '../../../core/ports/store/ledger.ts'
import type { KeySharing } from './keySharing.ts'

/**
 * Time between two renewals of a key's lease, in ms. At the same interval, this process checks what other processes did about
 * its payments.
 */
const KEY_MS = 2_000
/** While another process holds a lease, the time between two checks whether it was released, in ms. */
const FREE_KEY_MS = 1_000

/** Holds the leases of a settler, and loads the settler's state once it has them. */
interface LeaseHolder {
  /** Awaited before the first call, because the job's first run may come later. */
  begin(): Promise<void>
  /** Ends the job, and releases the keys. */
  stop(): Promise<void>
}

interface LeaseHolderDeps {
  readonly ledger: Pick<Ledger, 'openAttempts' | 'minedAttempts' | 'list'>
  readonly leases: Leases
  /** Undefined if no other process forwards payments to this process. */
  readonly keys: Pick<KeySharing, 'holds' | 'lost'> | undefined
  readonly log: Log
}

/**
 * Holds the leases of a settler that only one process of the installation may use at a time. It takes every key that no other
 * process holds. The other processes forward their payments to this process.
 */
export function createLeaseHolder(
  settler: Settler,
  { ledger, leases, keys, log }: LeaseHolderDeps,
): LeaseHolder {
  const { id, network } = settler
  const own = leaseOfKey(leases, id)
  const taken = (settler.keys ?? [settler]).map((key) =>
    createTakenKey({ network, key, own, isOwn: key.id === id, ledger, leases, log }),
  )
  /** The ids of the leases whose mailboxes are read, as one text. */
  let readFor = ''
  let isLogged = false
  /**
   * Whether this process holds a key. The holder of the settler's lease may have none, if a gateway with another list of keys
   * has them.
   */
  const canSettle = () => taken.some(({ started }) => started !== undefined)
  async function poll(): Promise<void> {
    const held = await own.hold()
    if (held === undefined) {
      if (readFor !== '') keys?.lost(settler)
      readFor = ''
      for (const key of taken) await key.leave()
      if (!isLogged)
        log.info(
          { network, settler: id },
          'another process of this installation settles with this key, so this process forwards payments to it',
        )
      isLogged = true
      return
    }
    await whileHolding(() => Promise.all(taken.map((key) => key.poll(held))))
    const heldLeases = [held, ...taken.flatMap((key) => key.held ?? [])]
    const isHeld = () => own.isHeld && canSettle()
    // A paused process opens no mailbox. After it has renewed its lease, it opens the mailbox, although the lease keeps its id.
    const reading = [...new Set(heldLeases.map((lease) => lease.id)), isHeld()].join()
    if (reading === readFor) return
    keys?.holds(settler, heldLeases, isHeld)
    readFor = reading
    if (!canSettle()) return
    if (isLogged) log.info({ network, settler: id }, 'this process settles with this key now')
    isLogged = false
  }
  /** Renews the leases during the work, so that a slow node does not cost this process the keys. */
  async function whileHolding<T>(work: () => Promise<T>): Promise<T> {
    const renew = () => {
      void own.hold().catch(() => undefined)
      for (const key of taken) key.renew()
    }
    const renewing = setInterval(renew, KEY_MS)
    try {
      return await work()
    } finally {
      clearInterval(renewing)
    }
  }
  const job = startJob({
    name: `hold the settling keys of ${network}`,
    everyMs: FREE_KEY_MS,
    log,
    async run() {
      await poll()
      const hasAll = taken.every(({ started }) => started !== undefined)
      return { inMs: hasAll ? KEY_MS : FREE_KEY_MS }
    },
  })
  return {
    begin: () => job.runNow(),
    async stop() {
      await job.stop()
      keys?.lost(settler)
      const leave = async () => {
        for (const key of taken) await key.leave()
        await own.release()
      }
      await leave().catch((err: unknown) => log.warn({ err, network }, 'could not release a key'))
    },
  }
}

/**
 * Loads what an earlier process left open with a settler or one of its keys.
 * @returns false if the settler or key cannot settle yet
 */
export async function takeUp(
  network: NetworkId,
  key: Pick<OwnKey, 'id' | 'start'>,
  ledger: Pick<Ledger, 'openAttempts' | 'minedAttempts' | 'list'>,
  log: Log,
  mayGoOn?: () => boolean,
): Promise<boolean> {
  try {
    const attempts = await Promise.all([ledger.openAttempts(key.id), ledger.minedAttempts(key.id)])
    await key.start?.(attempts.flat(), mayGoOn, () => ledgerNonces(ledger, network, key.id))
    return true
  } catch (err) {
    log.warn({ err, network }, 'this process cannot settle yet and tries again')
    return false
  }
}

interface TakenKeyDeps extends Pick<LeaseHolderDeps, 'ledger' | 'leases' | 'log'> {
  readonly network: NetworkId
  /** A key, or a settler with a single key. */
  readonly key: Pick<OwnKey, 'id' | 'start' | 'followUp'> & Partial<Pick<OwnKey, 'readState'>>
  readonly own: KeyLease
  /** True if the key's lease is the settler's lease, because the settler has no other key. */
  readonly isOwn: boolean
}

function createTakenKey({ network, key, own, isOwn, ledger, leases, log }: TakenKeyDeps) {
  const { id } = key
  const lease = isOwn ? own : leaseOfKey(leases, id)
  const followUp = async () => key.followUp?.(() => ledger.openAttempts(id))
  let held: Lease | undefined
  let started: Lease | undefined
  let isLogged = false
  let comparing: Promise<void> | undefined
  /**
   * Runs one comparison with the chain at a time. A node may take longer than this process holds the key, and a second
   * comparison would get the same result.
   */
  const compareOnce = () => {
    comparing ??= warnOfStaleDatabase(network, key, ledger, log).finally(() => (comparing = undefined))
  }
  return {
    /** The key's lease, while this process holds it. */
    get held() {
      return held
    },
    /** The lease under which the key was started. Undefined while this process does not hold the key. */
    get started() {
      return started
    },
    async poll(settlerLease: Lease): Promise<void> {
      held = isOwn ? settlerLease : await lease.hold()
      if (held === undefined) {
        started = undefined
        if (!isLogged)
          log.warn(
            { network, key: id },
            'another process has this settling key, so this process does not use it',
          )
        isLogged = true
        return
      }
      isLogged = false
      if (held.id !== started?.id) {
        started = undefined
        if (!(await takeUp(network, key, ledger, log, () => own.isHeld && lease.isHeld))) return
        started = held
        compareOnce()
      }
      await followUp()
    },
    renew(): void {
      if (!isOwn && lease.isHeld) void lease.hold().catch(() => undefined)
    },
    async leave(): Promise<void> {
      started = undefined
      held = undefined
      if (!isOwn) await lease.release()
    },
  }
}

/**
 * Logs an error if the chain has more transactions of a key than the ledger, although the ledger has some. The gateway records
 * a transaction before it sends it. So the database was restored from an older copy, another program has used the key, or a
 * nonce was filled. The check blocks no sale. `tollgate doctor` finds the missing sales. The promise never rejects.
 */
export async function warnOfStaleDatabase(
  network: NetworkId,
  { id, readState: poll }: Pick<OwnKey, 'id'> & Partial<Pick<OwnKey, 'readState'>>,
  ledger: Pick<Ledger, 'list'>,
  log: Log,
): Promise<void> {
  try {
    // The chain is read before the ledger, so that the ledger contains every transaction that the chain had by then.
    const next = (await poll?.())?.nonce?.mined
    if (next === undefined) return
    const { nonces: numbers } = await ledgerNonces(ledger, network, id)
    if (numbers.size === 0) return
    const lastInLedger = Math.max(...numbers)
    if (next <= lastInLedger + 1) return
    // The node is asked twice, because a node may once report too many transactions.
    const again = (await poll?.())?.nonce?.mined
    const transactionsOnChain = Math.min(next, again ?? next)
    if (transactionsOnChain <= lastInLedger + 1) return
    log.error(
      { network, key: id, transactionsOnChain, lastInLedger },
      'the settling key has sent more transactions than the database contains. The database may have been restored from an older copy, which lacks sales. Run tollgate doctor',
    )
  } catch (err) {
    log.warn({ err, network, key: id }, 'could not compare a settling key with the database')
  }
}
