import type { NetworkId } from '../../../../core/domain/network.ts'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { type BroadcastResult, broadcast } from './broadcast.ts'
import type { Fees } from './fees.ts'
import { type KnownNonces, MOST_FILLED } from './knownNonces.ts'
import type { NonceQueue } from './nonceQueue.ts'

/** Before what could not be filled is tried again, and twice as late each time up to the most. */
const REPAIR_AGAIN_MS = 100
const MAX_REPAIR_AGAIN_MS = 5_000

/** Sent beside each other, lowest first: whoever takes a key over may find fifty of them, and payments wait behind the last. */
const AT_ONCE = 16

/** What an empty transfer takes. */
const FILLER_GAS = 21_000

/** Sees to it that an account's nonces are used without a gap: a transaction behind one is not mined. */
export interface GapRepair {
  /** There are nonces that no payment will use, or nonces of a former process that have not been looked at. */
  readonly hasGaps: boolean
  /** When the chain was last asked, by this machine's monotonic clock. */
  readonly lookedAtMs: number
  /** A former process signed below this nonce: which of them nobody stored is found out at the next repair. */
  adoptBelow(nonce: number): void
  /** Sends again what the pool has lost, and fills what no payment will use. One at a time; never rejects. */
  repair(): Promise<void>
  /** Repairs after so long, in ms, instead of when it would otherwise. */
  repairIn(ms: number): void
  /** Sends nothing more; resolves when nothing is being sent. */
  close(): Promise<void>
}

export interface GapRepairParts {
  readonly network: NetworkId
  readonly rpc: Rpc
  readonly log: Log
  readonly queue: NonceQueue
  readonly known: KnownNonces
  /** The account's next nonce by `latest` or `pending`. */
  readonly countOf: (block: string) => Promise<number>
  /** How long transactions wait behind a nonce that nobody here knows before it is filled, in ms. */
  readonly strandedMs: (nonce: number) => number
  /** Fees for a transaction that only uses up a nonce; undefined while they are above the cap. */
  readonly currentFees: () => Promise<Fees | undefined>
  /** A transaction of nothing to the account itself. */
  readonly signFiller: (nonce: number, gas: number, fees: Fees) => SettlementAttempt
  /** Whether this is still the process that has the key. */
  readonly mayGoOn: () => boolean
  /**
   * Nonces of payments that are open in the store, and whether the bytes there may be sent; undefined where nobody has told the way
   * there.
   */
  readonly openInStore: () => Promise<ReadonlyMap<number, boolean>> | undefined
}

export function createGapRepair(parts: GapRepairParts): GapRepair {
  const { network, rpc, log, queue, known, countOf, mayGoOn } = parts
  const { live, abandoned, formerlyMined } = known
  /** Below this a former process signed, and which of its nonces nobody stored has to be found out. */
  let adoptedBelow = 0
  let lookedAtMs = performance.now()
  let repairing: Promise<void> | undefined
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  let againMs = REPAIR_AGAIN_MS

  const hasGaps = () => queue.hasGaps || abandoned.size > 0 || adoptedBelow > 0 || known.isStranded

  /** Uses up a nonce whose transaction is pointless now: nothing to ourselves, at today's fees. */
  const fill = async (nonce: number): Promise<BroadcastResult['taken'] | undefined> => {
    const fees = await parts.currentFees()
    // Another process has the key by now, and may have a payment for this number.
    if (fees === undefined || !mayGoOn()) return undefined
    const { bytes } = parts.signFiller(nonce, FILLER_GAS, fees)
    const { taken } = await broadcast(rpc, bytes)
    log.info({ network, nonce, taken }, 'filled an account nonce that no payment will use')
    if (taken !== 'yes') return taken
    abandoned.delete(nonce)
    const mostWei = BigInt(FILLER_GAS) * fees.maxFeePerGas
    live.set(nonce, { bytes, mostWei, payments: 0, sinceMs: performance.now(), isFiller: true })
    return taken
  }

  /** What the store has a payment for that may be sent is the recovery's to send again, as it was signed. */
  const withoutOpen = async (nonces: readonly number[]): Promise<readonly number[]> => {
    if (nonces.length === 0) return nonces
    const open = await parts.openInStore()
    return open === undefined ? nonces : nonces.filter((nonce) => open.get(nonce) !== true)
  }

  const abandonGivenBack = (): void => {
    for (const nonce of queue.takeGaps()) abandoned.add(nonce)
  }

  const repairOnce = async (): Promise<void> => {
    if (!mayGoOn()) return
    abandonGivenBack()
    const [latest, said] = [await countOf('latest'), await countOf('pending')]
    // What nobody stored is filled where two answers agree that nobody has used it: one node may lag, and another one say too much.
    const saidAgain = adoptedBelow > 0 ? await countOf('pending') : said
    const pooled = Math.min(said, saidAgain)
    const unused = Math.max(said, saidAgain)
    // What is used is in the pool's count as well: one wrong answer does not make a number that nobody has used a used one.
    const mined = Math.min(latest, pooled)
    // What a reorganisation took back is the recovery's to send again, as it was signed.
    const first = adoptedBelow - unused > MOST_FILLED ? adoptedBelow : unused
    if (first !== unused)
      log.error(
        { network, nonce: unused, signedBelow: adoptedBelow },
        'payments were signed with numbers far above those that the settling account has used: a node must have said a wrong count. They can not land, and nobody is charged; numbers in between are not filled',
      )
    for (let nonce = first; nonce < adoptedBelow; nonce++)
      if (!live.has(nonce) && !formerlyMined.has(nonce)) abandoned.add(nonce)
    // Where they disagree the others are looked at again.
    adoptedBelow = unused > pooled ? Math.min(adoptedBelow, unused) : 0
    lookedAtMs = performance.now()
    known.minedBelow(mined)
    // Meanwhile.
    abandonGivenBack()
    const afterMs = parts.strandedMs(pooled)
    // Those behind the first may have to wait for longer.
    const stranded = known.strandedFrom(pooled, afterMs).filter((nonce) => parts.strandedMs(nonce) <= afterMs)
    for (const nonce of await withoutOpen(stranded)) abandoned.add(nonce)
    for (const nonce of abandoned) if (nonce < mined) abandoned.delete(nonce)
    const nonces = known.from(pooled)
    for (let i = 0; i < nonces.length && !isClosed; i += AT_ONCE) await sendSome(nonces.slice(i, i + AT_ONCE))
  }

  const sendSome = async (nonces: readonly number[]): Promise<void> => {
    const taken = await Promise.all(nonces.map(sendAgain))
    // Some nodes take no number before the one below it, and may have heard of them in another order.
    for (const [i, nonce] of nonces.entries())
      if (taken[i] === 'refused' && (isClosed || (await sendAgain(nonce)) === 'refused')) return
  }

  const sendAgain = async (nonce: number): Promise<BroadcastResult['taken'] | undefined> => {
    const bytes = known.bytesOf(nonce)
    if (bytes !== undefined) return (await broadcast(rpc, bytes)).taken
    return abandoned.has(nonce) ? fill(nonce) : undefined
  }

  const repair = (): Promise<void> => {
    repairing ??= repairOnce()
      .catch((error: unknown) => {
        known.forgetStranded()
        log.warn({ network, error: String(error) }, 'could not look after account nonces')
      })
      .finally(() => {
        repairing = undefined
        againMs = hasGaps() ? Math.min(2 * againMs, MAX_REPAIR_AGAIN_MS) : REPAIR_AGAIN_MS
        if (hasGaps()) repairIn(againMs)
      })
    return repairing
  }

  const repairIn = (ms: number): void => {
    if (isClosed) return
    clearTimeout(timer)
    timer = setTimeout(repair, ms)
    timer.unref()
  }

  return {
    get hasGaps() {
      return hasGaps()
    },
    get lookedAtMs() {
      return lookedAtMs
    },
    adoptBelow(nonce) {
      adoptedBelow = Math.max(adoptedBelow, nonce)
    },
    repair,
    repairIn,
    async close() {
      isClosed = true
      clearTimeout(timer)
      await repairing
    },
  }
}
