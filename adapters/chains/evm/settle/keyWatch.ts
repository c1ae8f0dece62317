import { setTimeout as sleep } from 'node:timers/promises'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { NonceQueue, ReadLedgerNonces } from './nonces.ts'

/** Time between two checks whether another program signs with the key, in ms. */
const CHECK_MS = 2_000
/** How often the startup check asks the chain to return an unknown nonce twice. */
const MAX_READS_AT_START = 3
/** After this many checks that found unknown transactions, the watch concludes that another program signs. */
const MAX_DOUBTS = 3
/**
 * This long after the first check, in ms, further checks count even without a new block. The time is two blocks of Ethereum plus a
 * few seconds.
 */
const MAX_BLOCK_WAIT_MS = 30_000

interface KeyWatchDeps {
  readonly network: NetworkId
  readonly address: string
  readonly log: Log
  /**
   * How long this process signs nothing after another program has signed, in ms. A random part of up to half of it is added. 0
   * turns the checks off.
   */
  readonly sharedKeyMs: number
  readonly queue: NonceQueue
  /** The account's next nonce in the block `latest` or `pending`. */
  readonly countOf: (block: string) => Promise<number>
  /** The number of the newest block. */
  readonly newestBlock: () => Promise<number>
  /** Whether this process has recorded a transaction of this installation with the nonce, in flight or mined. */
  readonly isOwn: (nonce: number) => boolean
  /** Nonces of payments that are open in the database. Undefined until open payments are adopted. */
  readonly openInStore: () => Promise<ReadonlyMap<number, unknown>> | undefined
}

/** Detects whether another program uses nonces of a key, such as an installation with a database of its own. */
export class KeyWatch {
  readonly #deps: KeyWatchDeps
  readonly #atStart: StartCounts
  readonly #doubts: StartDoubts
  /**
   * Whether the queue's next nonce was read from the chain since this process began to settle. Other processes may have used more
   * nonces before.
   */
  #knowsNext = false
  #sharedUntilMs = Number.NEGATIVE_INFINITY
  #checkedAtMs = Number.NEGATIVE_INFINITY
  #claimedRange: readonly [number, number] = [0, 0]
  #checking: Promise<void> = Promise.resolve()
  /** The startup check in progress. */
  #finding: Promise<void> | undefined
  /** Counts the times when other processes may have held the key, including the time before this process started. */
  #begun = 0

  constructor(deps: KeyWatchDeps) {
    this.#deps = deps
    this.#atStart = new StartCounts(deps)
    this.#doubts = new StartDoubts(deps.sharedKeyMs)
  }

  /** Whether another program has recently used nonces of this key. */
  get isShared(): boolean {
    return performance.now() < this.#sharedUntilMs
  }

  /** Nodes report the nonces from the first to below the second as used, and this process has no record of them. */
  get claimedRange(): readonly [number, number] {
    return this.#claimedRange
  }

  /**
   * Makes the next check a startup check, because other processes of this installation may have held the key.
   *
   * @param ledgerNonces asks the ledger for the nonces that it has attempts for
   */
  begin(ledgerNonces?: ReadLedgerNonces): void {
    const { queue } = this.#deps
    // Another program seemed to have used these nonces, but other processes of this installation may have. The next chain request
    // decides.
    this.#atStart.begin(ledgerNonces, queue.hasSuspicion ? queue.next! : 0)
    queue.clearSuspicion()
    this.#finding = undefined
    this.#claimedRange = [0, 0]
    this.#begun++
    this.#knowsNext = false
    this.#doubts.begin()
    // A program that was detected before may have stopped, and the startup check finds that out.
    this.#sharedUntilMs = Number.NEGATIVE_INFINITY
    this.#checkedAtMs = Number.NEGATIVE_INFINITY
  }

  /**
   * The account's next nonce on chain, including its pool. A nonce above every recorded nonce counts only after nodes have returned
   * it twice, and at startup three times, because a transaction above an unused nonce waits forever. Rejects if no node responds,
   * or while another program seems to sign.
   */
  async firstFree(): Promise<number> {
    const { queue, countOf, sharedKeyMs } = this.#deps
    // A startup check has not found the next nonce yet, because no node responded or checks are off.
    while (this.#begun > 0 && !this.#knowsNext) {
      await this.#checkAtStart()
      this.#refuseShared()
    }
    const first = await countOf('pending')
    if (first <= (queue.next ?? 0)) return first
    if (sharedKeyMs === 0) return Math.min(first, await countOf('pending'))
    // The check finds out which program used the nonce.
    await this.#checkOnce()
    this.#refuseShared()
    return Math.min(first, queue.next ?? 0)
  }

  /**
   * Runs at most once per {@link CHECK_MS}, except for the first check after a wait. Concurrent callers share one check. Never
   * rejects.
   */
  check(): Promise<void> {
    const { network, log, queue, sharedKeyMs } = this.#deps
    const nowMs = performance.now()
    const isToJudge =
      queue.hasSuspicion && this.#checkedAtMs < this.#sharedUntilMs && nowMs >= this.#sharedUntilMs
    if (sharedKeyMs === 0 || (nowMs - this.#checkedAtMs < CHECK_MS && !isToJudge)) return this.#checking
    // A startup check can take longer than {@link CHECK_MS}, so no other check starts before it ends.
    this.#checkedAtMs = this.#knowsNext ? nowMs : Number.POSITIVE_INFINITY
    const start = this.#begun
    this.#checking = this.#checkOnce()
      .catch((error: unknown) => {
        // This process signs nothing above the nonce until a check has confirmed it.
        if (queue.hasSuspicion || (this.#doubts.hasAny && !this.#knowsNext))
          this.#sharedUntilMs = Math.max(this.#sharedUntilMs, this.#soonMs())
        log.warn(
          { network, error: String(error) },
          'could not check whether another program signs with the settling key',
        )
      })
      .finally(() => {
        if (start === this.#begun) this.#checkedAtMs = this.isShared ? performance.now() : nowMs
      })
    return this.#checking
  }

  async #checkOnce(): Promise<void> {
    if (!this.#knowsNext) return this.#checkAtStart()
    const { queue, countOf } = this.#deps
    const start = this.#begun
    let pooled = await countOf('pending')
    let isForeign = await this.#isUnknownBelow(pooled)
    if (isForeign) {
      // A transaction above an unused nonce never lands. So the count is read twice, because one response may be wrong or for
      // another account.
      pooled = Math.min(pooled, await countOf('pending'))
      isForeign = await this.#isUnknownBelow(pooled)
    }
    // Other processes may have held the key meanwhile and used the nonces that the check found.
    if (start !== this.#begun) return
    if (isForeign) queue.suspect(pooled)
    else if (queue.hasSuspicion && pooled <= queue.next!) await this.#judgeSupposed(pooled)
    else queue.raiseAbove(pooled - 1)
    if (isForeign) this.#reportShared(pooled)
  }

  /** Runs the startup check. Concurrent callers share it. */
  #checkAtStart(): Promise<void> {
    const own = (this.#finding ??= this.#findNext().finally(() => {
      if (this.#finding === own) this.#finding = undefined
    }))
    return own
  }

  /**
   * Withholds nonces that only a node reports as used. The queue hands out none above them until another chain request confirms the
   * report. Otherwise the nonces are free again.
   */
  async #findNext(): Promise<void> {
    const { queue, countOf, newestBlock } = this.#deps
    const start = this.#begun
    while (!this.#knowsNext) {
      queue.clearSuspicion()
      const { mined, pooled, known, isFirstReport } = await this.#atStart.readCounts()
      // The mined count of a node that does not lag. It is read twice, because requests may alternate between two nodes.
      let newest = mined
      for (let i = 0; i < 2 && this.#isForeignInPool(newest, pooled); i++)
        newest = Math.max(newest, await countOf('latest'))
      const isForeign = this.#isForeignInPool(newest, pooled)
      const block = isForeign ? await newestBlock().catch(() => 0) : undefined
      // Other processes may have held the key meanwhile.
      if (start !== this.#begun) return
      const isSure = !isForeign && !isFirstReport
      queue.raiseAbove(Math.min(pooled, known) - 1)
      if (isSure) this.#accept(pooled)
      else queue.suspect(pooled)
      this.#knowsNext = isSure || this.#doubts.add(block)
      if (this.#knowsNext) return isSure ? undefined : this.#reportShared(pooled)
      // Waits until a block can have taken the transaction.
      if (!isForeign) continue
      this.#sharedUntilMs = this.#soonMs()
      return
    }
  }

  /** Whether the pool has a nonce that this process has not signed and no former process has stored. */
  #isForeignInPool(mined: number, pooled: number): boolean {
    for (let nonce = mined; nonce < pooled; nonce++)
      if (!this.#deps.isOwn(nonce) && !this.#atStart.isInLedger(nonce)) return true
    return false
  }

  /** Whether nonces are used that this process did not hand out and that belong to no open payment in the database. */
  async #isUnknownBelow(pooled: number): Promise<boolean> {
    const { queue, openInStore } = this.#deps
    const next = queue.next ?? 0
    if (pooled <= next) return false
    const open = await openInStore()
    // The loop stops at the first unknown nonce, because the count is only a node's report and may be very high.
    for (let nonce = next; nonce < pooled; nonce++) if (open?.has(nonce) !== true) return true
    return false
  }

  /** Refuses to hand out a nonce while another program seems to sign. */
  #refuseShared(): void {
    if (this.isShared) throw new Error('another program may be signing with the settling key')
  }

  /** Records the count as confirmed, so this process may sign above it. */
  #accept(below: number): void {
    const { queue } = this.#deps
    queue.clearSuspicion()
    const from = queue.next ?? 0
    if (below > from) this.#claimedRange = [from, below]
    queue.raiseAbove(below - 1)
  }

  /** The time of the next check, in ms on the monotonic clock. */
  #soonMs(): number {
    return performance.now() + Math.min(CHECK_MS, this.#deps.sharedKeyMs)
  }

  /**
   * Checks the withheld nonces again once the wait is over and before anything is signed above them. An earlier request may have
   * reached a lagging node.
   */
  async #judgeSupposed(pooled: number): Promise<void> {
    if (this.isShared) return
    const { network, address, log, queue, countOf, openInStore } = this.#deps
    const suspectedBelow = queue.next!
    let used = pooled
    // A transaction with a used nonce never lands. So the highest response counts, and the nonce of every payment in the database
    // counts as used.
    if (used < suspectedBelow) {
      used = Math.min(suspectedBelow, Math.max(used, await countOf('pending')))
      for (const nonce of (await openInStore())?.keys() ?? [])
        if (nonce < suspectedBelow) used = Math.max(used, nonce + 1)
    }
    // Another check has detected a further transaction meanwhile.
    if (this.isShared) return
    this.#accept(used)
    if (queue.next! >= suspectedBelow) return
    log.warn(
      { network, account: address, nonce: suspectedBelow, next: queue.next },
      'nonces of the settling key are unused, although a node reported them as used',
    )
  }

  #reportShared(pooled: number): void {
    const { network, address, log, sharedKeyMs } = this.#deps
    // The time is random, so that of two programs that detect each other one starts first.
    this.#sharedUntilMs = performance.now() + sharedKeyMs * (1 + Math.random() / 2)
    log.error(
      { network, account: address, nonce: pooled },
      'another program signs with the settling key. This gateway waits until the other program stops. Give each installation a key of its own',
    )
  }
}

/** An account's next nonce on chain at startup, and how certain it is. */
interface ReportedCounts {
  /** Next nonce by the newest block. */
  readonly mined: number
  /** Next nonce including transactions in the pool. */
  readonly pooled: number
  /** All nonces below this one are known from the ledger, or because this process handed them out or adopted them. */
  readonly known: number
  /** Some nonces below `pooled` are unknown and were returned for the first time, so the node's count may be wrong. */
  readonly isFirstReport: boolean
}

/**
 * Reads an account's nonces from the chain at startup, when other processes may have held the key and any of several nodes may be
 * wrong. A lagging node returns too low a nonce, and a transaction with a used nonce never lands. A wrong node returns too high a
 * nonce, and a transaction above an unused nonce waits forever.
 */
class StartCounts {
  readonly #deps: Pick<KeyWatchDeps, 'network' | 'address' | 'log' | 'queue' | 'countOf'>
  #readLedgerNonces: ReadLedgerNonces | undefined
  #inLedger: ReadonlySet<number> = new Set()
  /** The ledger has attempts with nonces below this one. */
  #ledgerBelow = 0
  /** Nonces below this one need no second response, because a node has returned them before. */
  #reportedBefore = 0
  /** When a node last responded, in ms on the monotonic clock. */
  #reportedAtMs = Number.NEGATIVE_INFINITY

  constructor(deps: Pick<KeyWatchDeps, 'network' | 'address' | 'log' | 'queue' | 'countOf'>) {
    this.#deps = deps
  }

  /**
   * Starts over, because other processes may have held the key. Earlier responses no longer count, except for nonces below
   * `reportedBefore`.
   */
  begin(readLedgerNonces: ReadLedgerNonces | undefined, reportedBefore: number): void {
    this.#readLedgerNonces = readLedgerNonces
    this.#inLedger = new Set()
    this.#ledgerBelow = 0
    this.#reportedBefore = reportedBefore
    this.#reportedAtMs = Number.NEGATIVE_INFINITY
  }

  /** Whether the ledger has an attempt with the nonce. False if the ledger was not read. */
  isInLedger(nonce: number): boolean {
    return this.#inLedger.has(nonce)
  }

  /**
   * Returns the highest nonce that is known or that nodes have returned twice. The previous call's response counts as the first.
   * Waits at least {@link CHECK_MS} after the previous query, to leave time for a block. Rejects if no node responds.
   */
  async readCounts(): Promise<ReportedCounts> {
    const { network, address, log, queue } = this.#deps
    const reported: number[] = []
    let mined = 0
    for (;;) {
      const response = await this.#readBoth()
      const given = queue.next ?? 0
      if (reported.length === 0 && response.pooled > given && this.#ledgerBelow === 0)
        await this.#readLedger()
      const known = Math.max(given, this.#ledgerBelow)
      const expected = Math.max(known, this.#reportedBefore)
      mined = Math.max(mined, response.mined)
      reported.push(Math.max(given, response.pooled))
      reported.sort((a, b) => b - a)
      const [highest = 0, second = 0] = reported
      const pooled = Math.max(second, Math.min(highest, expected))
      const isSure = pooled === highest && highest >= expected
      const facts = { network, account: address, reported, expected, next: pooled }
      if (isSure || reported.length === MAX_READS_AT_START) {
        if (!isSure)
          log.warn(
            facts,
            'nodes disagree about the next nonce of the settling key, or return a lower one than before or than the database has. This gateway continues with the highest nonce that was returned twice or is known here',
          )
        this.#reportedBefore = pooled
        return { mined: Math.min(mined, pooled), pooled, known, isFirstReport: pooled > expected }
      }
      if (reported.length === 1)
        log.info(
          facts,
          'the next nonce of the settling key differs from the one known here, so the gateway requests the nonce again before it signs',
        )
    }
  }

  async #readBoth(): Promise<{ readonly mined: number; readonly pooled: number }> {
    const { countOf } = this.#deps
    const waitMs = this.#reportedAtMs + CHECK_MS - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    const [mined, pooled] = await Promise.all([countOf('latest'), countOf('pending')])
    this.#reportedAtMs = performance.now()
    // Two nodes may share one address, and the node that returned the pool's count may lag.
    return { mined, pooled: Math.max(mined, pooled) }
  }

  /** Reads the ledger only if the chain has used more nonces than this process has recorded, such as after a time without sales. */
  async #readLedger(): Promise<void> {
    const { network, log } = this.#deps
    try {
      this.#inLedger = (await this.#readLedgerNonces?.())?.nonces ?? new Set()
    } catch (error) {
      log.warn(
        { network, error: String(error) },
        'the ledger could not be read for the nonces of the settling key',
      )
    }
    for (const nonce of this.#inLedger) this.#ledgerBelow = Math.max(this.#ledgerBelow, nonce + 1)
  }
}

/**
 * Counts consecutive checks after startup that found pending nonces which no process of this installation has used. A former
 * process can leave fillers (empty transactions that use up a nonce) in the pool, and the database has no record of them. The next
 * block takes the fillers, while another program that uses the key sends new transactions. Checks between two blocks cannot
 * distinguish the two cases.
 */
class StartDoubts {
  readonly #maxBlockWaitMs: number
  #doubts = 0
  /** Number of the newest block that was counted. */
  #seen = -1
  /** When the first doubt was counted, in ms on the monotonic clock. */
  #sinceMs = 0

  constructor(sharedKeyMs: number) {
    this.#maxBlockWaitMs = Math.min(MAX_BLOCK_WAIT_MS, sharedKeyMs)
  }

  begin(): void {
    this.#doubts = 0
    this.#seen = -1
  }

  get hasAny(): boolean {
    return this.#doubts > 0
  }

  /**
   * @param block number of the newest block, if the next one has to contain all pending transactions; undefined if blocks prove
   * nothing
   * @returns whether the doubts suffice to conclude that another program signs
   */
  add(block?: number): boolean {
    const nowMs = performance.now()
    if (this.#doubts === 0) this.#sinceMs = nowMs
    if (block === undefined || block > this.#seen || nowMs - this.#sinceMs >= this.#maxBlockWaitMs)
      this.#doubts++
    this.#seen = Math.max(this.#seen, block ?? -1)
    return this.#doubts >= MAX_DOUBTS
  }
}
