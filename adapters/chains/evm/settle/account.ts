import type { OpenAttempt, SettlementAttempt } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/hex.ts'
import type { EvmCall } from '../../../../core/evm/token.ts'
import { quantity, RpcUnreachable } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { chainIdOf } from '../rpc/nodes.ts'
import { GapRepair } from './gapRepair.ts'
import { KeyWatch } from './keyWatch.ts'
import {
  ClaimedNonces,
  KnownNonces,
  NonceQueue,
  noLedgerNonces,
  type ReadLedgerNonces,
  readOnce,
  sendable,
} from './nonces.ts'
import { addressOfKey, type Fees, signTransaction } from './transaction.ts'

/** How long a returned nonce waits before an empty transaction uses it up, in ms. The next payment may use it meanwhile. */
const GAP_MS = 250
/**
 * Transactions wait the usual time, divided by this number, behind nonces that only nodes report as used. Filling such nonces costs
 * no payment of the ledger.
 */
const CLAIMED_PART = 20
/**
 * No account has sent this many transactions, so a node with a higher count is broken. That count would leave a gap that cannot be
 * filled.
 */
const MAX_TRANSACTIONS_SENT = 2 ** 32

export interface SettlingAccountOptions
  extends Pick<
    Required<EvmSettlerOptions>,
    'network' | 'log' | 'maxGas' | 'maxFeePerGasWei' | 'storeTimeoutMs' | 'strandedMs' | 'sharedKeyMs'
  > {
  readonly privateKey: string
  readonly rpc: Rpc
  /** Fees for a filler (an empty transaction that uses up a nonce); undefined while they are above the cap. */
  readonly currentFees: () => Promise<Fees | undefined>
}

/** Stores an attempt with its payment. Resolves to false if the attempt must not be sent. */
export type Store = (attempt: SettlementAttempt) => Promise<boolean>

/** The result of storing the attempts of one transaction's payments. */
export interface Signing {
  /** Undefined if the transaction must not be sent. */
  readonly attempt: SettlementAttempt | undefined
  /** Whether each payment's store has accepted the attempt, by the payment's index. */
  readonly isStored: readonly boolean[]
}

/**
 * A settling key's account and its transactions in flight. Nonces have to be used without a gap, because a transaction that never
 * arrives blocks every later one. So the account sends a transaction's bytes again until its nonce is used. Once no payment needs
 * the bytes, an empty transaction uses the nonce instead.
 */
export class SettlingAccount {
  readonly address: string
  /** `evm:<network>:<address>`, the settler's name in stored attempts. */
  readonly id: string
  readonly #options: SettlingAccountOptions
  readonly #key: Buffer
  readonly #chainId: number
  readonly #known = new KnownNonces()
  readonly #queue: NonceQueue
  readonly #watch: KeyWatch
  readonly #claimedNonces: ClaimedNonces
  readonly #repairs: GapRepair
  /**
   * Reads the nonces of payments that are open in the database, and whether their stored bytes may be sent. Undefined until
   * {@link adopt}.
   */
  #openInStore: (() => Promise<ReadonlyMap<number, boolean>>) | undefined
  /** Former processes settled payments with nonces below this one. */
  #formerlyUsedBelow = 0
  /** Nonces that were stored but not mined at the last follow-up, as far as this process had recorded. */
  #lingering = new Set<number>()
  #mayGoOn: () => boolean = () => true

  constructor(options: SettlingAccountOptions) {
    const { network, rpc, log, sharedKeyMs, currentFees } = options
    this.#options = options
    this.#key = Buffer.from(options.privateKey.slice(2), 'hex')
    this.#chainId = chainIdOf(network)
    const lowerAddress = addressOfKey(this.#key)
    const address = checksumAddress(lowerAddress)
    this.address = address
    this.id = `evm:${network}:${lowerAddress}`
    const known = this.#known
    const countOf = (block: string) => this.#countOf(block)
    const openInStore = () => this.#openInStore?.()
    const queue = new NonceQueue(() => this.#watch.firstFree())
    this.#queue = queue
    this.#watch = new KeyWatch({
      network,
      address,
      log,
      queue,
      countOf,
      sharedKeyMs,
      // The chain uses nonces in order, so no nonce below a mined one waits in a pool.
      isOwn: (nonce) =>
        known.live.has(nonce) ||
        known.abandoned.has(nonce) ||
        nonce < Math.max(known.usedBelow, this.#formerlyUsedBelow),
      newestBlock: async () => Number(quantity(await rpc.call('eth_blockNumber'))),
      openInStore,
    })
    this.#claimedNonces = new ClaimedNonces(() => this.#watch.claimedRange)
    this.#repairs = new GapRepair({
      network,
      rpc,
      log,
      queue,
      known,
      countOf,
      currentFees,
      strandedMs: (nonce) => this.#strandedMs(this.#claimedNonces.has(nonce)),
      signFiller: (nonce, gas, fees) => this.#signed({ to: address, data: '0x' }, nonce, gas, fees),
      mayGoOn: () => this.#mayGoOn(),
      openInStore,
    })
  }

  /** Number of signed transactions that this process has not recorded as mined. */
  get inFlight(): number {
    return this.#known.live.size
  }

  /** Number of payments in these transactions. */
  get paymentsInFlight(): number {
    return this.#known.payments
  }

  /** How long the oldest sent transaction has waited for its block, in ms; 0 if there is none. */
  get oldestMs(): number {
    return this.#known.oldestMs
  }

  /**
   * Highest total cost of the transactions in flight, in wei. A node accepts a further transaction only if the balance covers both.
   */
  get committedWei(): bigint {
    return this.#known.committedWei
  }

  /** Whether another program has recently used nonces of this key. */
  get isShared(): boolean {
    return this.#watch.isShared
  }

  /** Whether there can be unused nonces that block later ones and that no payment will use. {@link repair} fills them. */
  get hasGaps(): boolean {
    if (this.#repairs.hasGaps) return true
    const isClaimed = this.#known.usedBelow < this.#claimedNonces.below
    // The check runs rarely and only while a transaction waits, because this process has no record of nonces that a former process
    // filled.
    if (
      this.#known.live.size > 0 &&
      performance.now() - this.#repairs.checkedAtMs >= this.#strandedMs(isClaimed)
    )
      return true
    return this.#known.hasFillers
  }

  /**
   * Signs with the next nonce and passes the attempt to the store of each payment in it. The transaction may be sent only if all
   * stores accept it. If none does, the nonce is free again. Concurrent calls sign at the same time, so that their attempts are
   * stored as one group. A store that does not respond in time counts as a refusal, but its bytes may still be stored later. An
   * empty transaction then uses up the nonce.
   *
   * @param gas gas limit of the transaction
   * @param stores empty for a transaction without payments
   */
  async sign(call: EvmCall, gas: number, fees: Fees, stores: readonly Store[]): Promise<Signing> {
    const { live } = this.#known
    const nonce = await this.#queue.take()
    const maxWei = BigInt(gas) * fees.maxFeePerGas
    const payments = stores.length
    let responses: (boolean | undefined)[] = []
    let attempt: SettlementAttempt | undefined
    // The transaction counts as in flight before it is stored, but is sent only afterwards.
    live.set(nonce, { bytes: '', maxWei, payments, sinceMs: performance.now() })
    try {
      const signed = this.#signed(call, nonce, gas, fees)
      const own: SettlementAttempt = payments > 1 ? { ...signed, isShared: true } : signed
      responses = await Promise.all(stores.map((store) => this.#storeWith(store, own)))
      if (responses.every((response) => response === true)) attempt = own
    } finally {
      if (attempt !== undefined) {
        const sinceMs = performance.now()
        const sent = { bytes: attempt.bytes, maxWei, payments, sinceMs }
        // A transaction without payments is not in the database, so no other process can conclude it.
        live.set(nonce, payments === 0 ? sent : { ...sent, isStored: true })
      } else {
        live.delete(nonce)
        if (responses.some((response) => response !== false)) await this.#giveUp(nonce, payments)
        else await this.#releaseNonce(nonce)
      }
    }
    return { attempt, isStored: responses.map((response) => response === true) }
  }

  /**
   * Adopts the attempts of a former process. This process signs nothing before that.
   *
   * @param mayGoOn whether this process still holds the key's lease; otherwise it fills no nonce
   * @param ledgerNonces asks the ledger for the nonces that it has attempts for
   */
  async adopt(
    attempts: readonly OpenAttempt[],
    mayGoOn: () => boolean = () => true,
    ledgerNonces?: ReadLedgerNonces,
  ): Promise<void> {
    this.#mayGoOn = mayGoOn
    const { live, abandoned, formerlyMined } = this.#known
    const readLedgerNonces = ledgerNonces && readOnce(ledgerNonces)
    this.#watch.begin(readLedgerNonces)
    this.#claimedNonces.adopt(noLedgerNonces, new Set())
    const open = attempts.filter(({ isMined }) => isMined !== true)
    const byNonce = Map.groupBy(open, ({ sequence }) => Number(sequence))
    const toSend = sendable(open)
    formerlyMined.clear()
    for (const { isMined, sequence } of attempts)
      if (isMined === true && !byNonce.has(Number(sequence))) formerlyMined.add(Number(sequence))
    for (const nonce of formerlyMined) {
      this.#queue.raiseAbove(nonce)
      this.#formerlyUsedBelow = Math.max(this.#formerlyUsedBelow, nonce + 1)
    }
    const highest = Math.max(-1, ...byNonce.keys())
    if (highest < 0) {
      // Another process may have sent transactions while it held the key.
      if (live.size > 0) await this.#repairs.repair()
      return
    }
    this.#queue.raiseAbove(highest)
    for (const [nonce, those] of byNonce) {
      if (toSend.get(nonce)) {
        // A payment needs the nonce again, even if this process had abandoned it before another process held the key.
        abandoned.delete(nonce)
        this.#follow(nonce, those.length, those.at(-1)!.bytes)
      } else abandoned.add(nonce)
    }
    // Payments that a reorganization undid are left out, because a lower nonce may belong to a payment that the database still
    // records as settled.
    const underWay = open.filter(({ isReorged }) => isReorged !== true)
    this.#repairs.adoptBelow(Math.max(0, ...underWay.map(({ sequence }) => Number(sequence))))
    await Promise.all([this.#repairs.repair(), this.#adoptClaimed(attempts, readLedgerNonces)])
  }

  /** Records that the attempt's transaction is mined, so its nonce is used. */
  mined({ sequence, bytes }: SettlementAttempt): void {
    this.#known.mined(Number(sequence), bytes)
  }

  /** Records that no payment needs the attempt's bytes any more. An empty transaction then has to use its nonce. */
  abandon({ sequence }: SettlementAttempt): void {
    const nonce = Number(sequence)
    if (!this.#known.live.delete(nonce) && nonce >= (this.#queue.next ?? 0)) return
    // The filler uses this nonce, so the queue must not hand it out again.
    this.#queue.raiseAbove(nonce)
    this.#known.abandoned.add(nonce)
  }

  /**
   * Compares the nonces in flight with the payments that are open in the database, because another process's recovery may have
   * concluded a payment, or may be sending one again that a reorganization undid.
   */
  async followUp(openAttempts: () => Promise<readonly OpenAttempt[]>): Promise<void> {
    const { live, abandoned } = this.#known
    this.#openInStore = async () => sendable(await openAttempts())
    const stored = new Set([...live].flatMap(([nonce, { isStored }]) => (isStored ? [nonce] : [])))
    const old = [...stored].filter((nonce) => this.#lingering.has(nonce))
    this.#lingering = stored
    const open = await this.#openInStore()
    const undone = await this.#undoneIn(open)
    // The chain may have lost a nonce below, of which the database has no record.
    for (const nonce of undone) this.#follow(nonce, 1, this.#known.bytesOf(nonce))
    const concluded = old.filter((nonce) => !open.has(nonce) && live.get(nonce)?.isStored)
    // A former process signed these attempts, and recovery has found that their bytes must never be sent.
    const unsent = old.filter((nonce) => open.get(nonce) === false && live.get(nonce)?.bytes === '')
    for (const nonce of [...concluded, ...unsent]) {
      live.delete(nonce)
      abandoned.add(nonce)
    }
    if (concluded.length + unsent.length > 0)
      this.#options.log.info(
        { network: this.#options.network, concluded, unsent },
        'another process has concluded payments of this account, or says that they were never sent',
      )
    if (undone.length > 0 || (old.length > 0 && this.hasGaps)) await this.#repairs.repair()
  }

  /** Asks the chain for the next nonce again, because another program used a nonce of this account. */
  recheck(): void {
    this.#queue.recheck()
  }

  /** Checks whether another program signs with this key; see {@link KeyWatch.check}. Never rejects. */
  checkSharing(): Promise<void> {
    return this.#watch.check()
  }

  /** Sends transactions again that the pool has lost. One repair runs at a time. Never rejects. */
  repair(): Promise<void> {
    return this.#repairs.repair()
  }

  /** The account's next nonce by the newest block, and its next nonce including the node's pool. Rejects if no node responds. */
  async nonces(): Promise<{ readonly mined: number; readonly pending: number }> {
    const [mined, pending] = await Promise.all([this.#countOf('latest'), this.#countOf('pending')])
    return { mined, pending }
  }

  /** Stops sending; resolves once no send is in progress. */
  close(): Promise<void> {
    return this.#repairs.close()
  }

  async #countOf(block: string): Promise<number> {
    const given = await this.#options.rpc.call('eth_getTransactionCount', this.address, block)
    const count = Number(quantity(given))
    if (count <= MAX_TRANSACTIONS_SENT) return count
    throw new RpcUnreachable(`the node says that the settling account has sent ${count} transactions`)
  }

  #signed(call: EvmCall, nonce: number, gas: number, fees: Fees): SettlementAttempt {
    const { bytes, hash } = signTransaction(
      { ...call, ...fees, chainId: this.#chainId, nonce, gas },
      this.#key,
    )
    return { settler: this.id, bytes, transaction: hash, sequence: String(nonce) }
  }

  #strandedMs(isClaimed: boolean): number {
    return this.#options.strandedMs / (isClaimed ? CLAIMED_PART : 1)
  }

  /** Follows a nonce that has payments in the database. If this process does not have the bytes, recovery sends them. */
  #follow(nonce: number, payments: number, bytes = ''): void {
    const maxWei = BigInt(this.#options.maxGas) * this.#options.maxFeePerGasWei
    this.#known.live.set(nonce, { bytes, maxWei, payments, sinceMs: performance.now(), isStored: true })
  }

  /** @returns undefined when storing takes too long */
  async #storeWith(store: Store, attempt: SettlementAttempt): Promise<boolean | undefined> {
    const { network, log, storeTimeoutMs } = this.#options
    try {
      return await withTimeout(store(attempt), storeTimeoutMs)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not be stored')
      return false
    }
  }

  /**
   * Gives back the nonce of an attempt that was not stored, unless the database has an open payment with the nonce. The database
   * may have stored this attempt late, or refused it because another process signed with the nonce. The queue then asks the chain
   * for the next nonce.
   */
  async #releaseNonce(nonce: number): Promise<void> {
    const open = await this.#openInStore?.().catch(() => undefined)
    if (open?.has(nonce)) {
      this.#options.log.error(
        { network: this.#options.network, nonce },
        'another process stored a payment with a nonce that this process could not store',
      )
      this.#follow(nonce, 1)
      return this.#queue.recheck()
    }
    this.#queue.release(nonce)
    if (this.#queue.hasGaps) this.#repairs.repairIn(GAP_MS)
  }

  /**
   * Gives up a nonce whose bytes this process does not send although the database may have stored them with a payment. If one
   * payment has stored them, recovery sends them. If the database does not respond now, `followUp` handles the nonce later. Until
   * then no transaction waits behind the nonce, because none can be stored.
   */
  async #giveUp(nonce: number, payments: number): Promise<void> {
    const { network, log } = this.#options
    const open = payments === 1 ? await this.#openInStore?.().catch(() => 'unavailable' as const) : undefined
    if (open === 'unavailable' || open?.get(nonce)) {
      log.warn(
        { network, nonce },
        'a settlement may or may not be stored. If it is stored, recovery sends it',
      )
      return this.#follow(nonce, 1)
    }
    log.error({ network, nonce }, 'a settlement was not stored, or not in time, so its nonce is filled')
    this.#known.abandoned.add(nonce)
    this.#repairs.repairIn(0)
  }

  /**
   * Reads the ledger only if payments are open, because only payments can wait behind nonces that nodes reported to a former
   * process.
   */
  async #adoptClaimed(
    attempts: readonly OpenAttempt[],
    readLedgerNonces: ReadLedgerNonces | undefined,
  ): Promise<void> {
    const { network, log } = this.#options
    const others = new Set(attempts.map(({ sequence }) => Number(sequence)))
    try {
      this.#claimedNonces.adopt((await readLedgerNonces?.()) ?? noLedgerNonces, others)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'the ledger did not return its booked nonces')
    }
  }

  /** Nonces of open payments that this process has recorded as used, although the chain has not used them any more. */
  async #undoneIn(open: ReadonlyMap<number, boolean>): Promise<readonly number[]> {
    const { live, abandoned } = this.#known
    const next = this.#queue.next ?? 0
    const isUsed = (nonce: number) => nonce < next && !live.has(nonce) && !abandoned.has(nonce)
    const used = [...open.keys()].filter(isUsed)
    if (used.length === 0) return used
    const pooled = await this.#countOf('pending').catch(() => next)
    return used.filter((nonce) => nonce >= pooled && isUsed(nonce))
  }
}

/** The promise's value, or undefined after `ms`. A rejection within that time is passed on. A later rejection is ignored. */
async function withTimeout(promised: Promise<boolean>, ms: number): Promise<boolean | undefined> {
  let timer: NodeJS.Timeout | undefined
  const tooLong = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined)
  })
  try {
    return await Promise.race([promised, tooLong])
  } finally {
    clearTimeout(timer)
  }
}
