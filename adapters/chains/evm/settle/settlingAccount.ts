import type { NetworkId } from '../../../../core/domain/network.ts'
import type { OpenAttempt, SettlementAttempt } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/address.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import type { EvmCall } from '../../../../core/evm/token.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import type { Fees } from './fees.ts'
import { createGapRepair } from './gapRepair.ts'
import { createKeyWatch, type KeyWatch } from './keyWatch.ts'
import { createKnownNonces } from './knownNonces.ts'
import { createNonceQueue, type NonceQueue } from './nonceQueue.ts'
import { createOnlySaid, noneBooked } from './onlySaid.ts'
import { addressOfKey, signTransaction } from './signTransaction.ts'
import { type AskBooks, askOnce } from './startCounts.ts'
import { within } from './within.ts'

/** Before a nonce that was given back is filled: the next payment may use it. */
const GAP_MS = 250
/**
 * Where only nodes have said that nonces are used, transactions wait behind them for this part of the time: no payment of the books is lost
 * when they are filled.
 */
const ONLY_SAID_PART = 20
/** No account has sent as many. A node that says so is broken, and believing it would leave a gap that nothing closes. */
const MOST_TRANSACTIONS = 2 ** 32

export interface SettlingAccountOptions {
  readonly network: NetworkId
  readonly privateKey: string
  readonly rpc: Rpc
  readonly maxGas: number
  readonly log: Log
  /** How long an attempt may take to be stored, in ms; then its nonce is used for nothing. */
  readonly storeTimeoutMs: number
  /** How long transactions wait behind nonces that nobody here knows before these are filled, in ms. */
  readonly strandedMs: number
  /** The highest fee of a transaction that a former process signed, in wei a unit of gas. */
  readonly maxFeePerGasWei: bigint
  /** How long nothing is signed after somebody else has, in ms; by chance up to half as long again. */
  readonly sharedKeyMs: number
  /** Fees for a transaction that only uses up a nonce; undefined while they are above the cap. */
  readonly currentFees: () => Promise<Fees | undefined>
}

/** Keeps an attempt with its payment; false when it is not to be sent. */
export type Store = (attempt: SettlementAttempt) => Promise<boolean>

/** What became of the stores of one transaction's payments. */
export interface Signing {
  /** Undefined where it is not to be sent. */
  readonly attempt: SettlementAttempt | undefined
  /** Whether each of them has it. */
  readonly isStored: readonly boolean[]
}

/**
 * The key that pays the fees, and its transactions that are on their way. Account nonces have to be used without a gap:
 * a transaction that never arrives holds up every later one, so its bytes, or an empty transaction once they can do no
 * good any more, are sent until its nonce is used.
 */
export interface SettlingAccount {
  readonly address: string
  /** `evm:<network>:<address>`, the name of the settler in stored attempts. */
  readonly id: string
  /** Transactions signed and not known to be mined. */
  readonly inFlight: number
  /** The payments in these. */
  readonly paymentsInFlight: number
  /** How long the oldest of them that was sent has waited for its block, in ms; 0 while there is none. */
  readonly oldestMs: number
  /** The most that these can cost, in wei: a node takes no further transaction that the balance does not cover as well. */
  readonly committedWei: bigint
  /**
   * Signs with the next nonce and hands the attempt to the store of each payment in it. It may be sent only when all of them
   * have said yes; when none has, the nonce is free again. As many as come do so at once, so that what they store is one group.
   * A store that does not answer in time counts as a no; its bytes may be stored in the end, as are those of the others, so
   * then another transaction uses up the nonce.
   *
   * @param gas that the transaction may use
   */
  sign(call: EvmCall, gas: number, fees: Fees, stores: readonly Store[]): Promise<Signing>
  /**
   * Whether there can be nonces that no payment will use, which hold up the later ones: {@link SettlingAccount.repair}
   * fills them.
   */
  readonly hasGaps: boolean
  /**
   * Takes up what a former process signed, before anything new is.
   *
   * @param mayGoOn whether this is still the process that has the key: otherwise no number is used up
   * @param bookedNumbers asks the books for the numbers that they have attempts for
   */
  adopt(attempts: readonly OpenAttempt[], mayGoOn?: () => boolean, bookedNumbers?: AskBooks): Promise<void>
  /** It is mined: its nonce is used. */
  mined(attempt: SettlementAttempt): void
  /** Its bytes can do no good any more; its nonce still has to be used. */
  abandon(attempt: SettlementAttempt): void
  /**
   * Abandons what is under way here since the last time, and open no more in the store: another process has concluded it.
   */
  followUp(openAttempts: () => Promise<readonly OpenAttempt[]>): Promise<void>
  /** Something else used a nonce of ours: ask the chain again. */
  recheck(): void
  /** Looks whether somebody else signs with this key; see {@link KeyWatch.look}. Never rejects. */
  lookForOthers(): Promise<void>
  /** Somebody else has used numbers of this key lately. */
  readonly isShared: KeyWatch['isShared']
  /** Sends again what the pool has lost. One at a time; never rejects. */
  repair(): Promise<void>
  /** The next account number by the newest block, and with what waits in the node's pool. Rejects when no node says. */
  nonces(): Promise<{ readonly mined: number; readonly pending: number }>
  /** Sends nothing more; resolves when nothing is being sent. */
  close(): Promise<void>
}

/** Whether what is stored with a nonce may be sent: not where any of its payments says that it never is. */
function sendable(attempts: readonly OpenAttempt[]): ReadonlyMap<number, boolean> {
  const byNonce = new Map<number, boolean>()
  for (const { sequence, isUnsent } of attempts) {
    const nonce = Number(sequence)
    byNonce.set(nonce, isUnsent !== true && byNonce.get(nonce) !== false)
  }
  return byNonce
}

export function createSettlingAccount(options: SettlingAccountOptions): SettlingAccount {
  const { network, rpc, maxGas, log, currentFees } = options
  const key = Buffer.from(options.privateKey.slice(2), 'hex')
  const lowerAddress = addressOfKey(key)
  const address = checksumAddress(lowerAddress)
  const chainId = Number(network.slice('eip155:'.length))
  const id = `evm:${network}:${lowerAddress}`
  const countOf = async (block: string): Promise<number> => {
    const count = Number(quantity(await rpc.call('eth_getTransactionCount', address, block)))
    if (count <= MOST_TRANSACTIONS) return count
    throw new RpcUnreachable(`the node says that the settling account has sent ${count} transactions`)
  }
  const queue: NonceQueue = createNonceQueue(() => watch.firstFree())
  const known = createKnownNonces()
  const { live, abandoned, formerlyMined } = known
  /**
   * Account nonces of payments that are open in the store, and whether the bytes there may be sent; undefined until somebody told the way
   * there.
   */
  let openInStore: (() => Promise<ReadonlyMap<number, boolean>>) | undefined
  /** Former processes' payments were settled with numbers up to here. */
  let formerlyUsedBelow = 0
  /** What was stored and not known to be mined when it was last followed up. */
  let lingering = new Set<number>()
  let mayGoOn: () => boolean = () => true

  const watch = createKeyWatch({
    ...{ network, address, log, queue, countOf, sharedKeyMs: options.sharedKeyMs },
    // Numbers follow each other: of those below one that was mined none waits in a pool.
    isOwn: (nonce) =>
      live.has(nonce) || abandoned.has(nonce) || nonce < Math.max(known.usedBelow, formerlyUsedBelow),
    newestBlock: async () => Number(quantity(await rpc.call('eth_blockNumber'))),
    openInStore: () => openInStore?.(),
  })

  const onlySaid = createOnlySaid(() => watch.onlySaid)

  const signed = (call: EvmCall, nonce: number, gas: number, fees: Fees): SettlementAttempt => {
    const { bytes, hash } = signTransaction({ ...call, ...fees, chainId, nonce, gas }, key)
    return { settler: id, bytes, transaction: hash, sequence: String(nonce) }
  }

  const strandedMs = (isOnlySaid: boolean) => options.strandedMs / (isOnlySaid ? ONLY_SAID_PART : 1)

  const repairs = createGapRepair({
    ...{ network, rpc, log, queue, known, countOf, currentFees },
    strandedMs: (nonce) => strandedMs(onlySaid.has(nonce)),
    signFiller: (nonce, gas, fees) => signed({ to: address, data: '0x' }, nonce, gas, fees),
    mayGoOn: () => mayGoOn(),
    openInStore: () => openInStore?.(),
  })

  /** What the store has payments for. Where nobody here knows the bytes, they are the recovery's to send. */
  const follow = (nonce: number, payments: number, bytes = ''): void => {
    const mostWei = BigInt(maxGas) * options.maxFeePerGasWei
    live.set(nonce, { bytes, mostWei, payments, sinceMs: performance.now(), isStored: true })
  }

  /**
   * What could not be stored may be stored all the same, or was refused because another process has signed with this number:
   * then it is that payment's, and the chain is asked for the next.
   */
  const giveBack = async (nonce: number): Promise<void> => {
    const open = await openInStore?.().catch(() => undefined)
    if (open?.has(nonce)) {
      log.error(
        { network, nonce },
        'an account nonce that was not stored here is another payment’s in the store',
      )
      follow(nonce, 1)
      return queue.recheck()
    }
    queue.giveBack(nonce)
    if (queue.hasGaps) repairs.repairIn(GAP_MS)
  }

  /** What a former process has heard of nodes only payments can wait behind: otherwise the books are not asked. */
  const adoptOnlySaid = async (
    attempts: readonly OpenAttempt[],
    askBooks: AskBooks | undefined,
  ): Promise<void> => {
    const others = new Set(attempts.map(({ sequence }) => Number(sequence)))
    try {
      onlySaid.adopt((await askBooks?.()) ?? noneBooked, others)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'the books could not say which numbers no payment has had')
    }
  }

  /** Of numbers that the chain has used nothing has to be known: which is all of them where nothing has left it. */
  const forgetUsed = async (): Promise<void> => {
    if (formerlyMined.size === 0) return
    const pooled = await countOf('pending').catch(() => 0)
    known.forgetFormerly(pooled)
  }

  /** @returns undefined when it takes too long */
  const storeWith = async (store: Store, attempt: SettlementAttempt): Promise<boolean | undefined> => {
    try {
      return await within(store(attempt), options.storeTimeoutMs)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not be stored')
      return false
    }
  }

  /**
   * Some payment has bytes with this nonce in the store, or may have, and they are not sent from here. Of a single payment that has
   * them there, whose process could not say so any more, they are the recovery's to send. A store that can't say now says later, in
   * `followUp`: nothing waits behind this nonce meanwhile, because nothing can be stored.
   */
  const giveUp = async (nonce: number, payments: number): Promise<void> => {
    const open = payments === 1 ? await openInStore?.().catch(() => 'away' as const) : undefined
    if (open === 'away' || open?.get(nonce)) {
      log.warn(
        { network, nonce },
        'nobody said whether a settlement is stored; when it is, the recovery sends it',
      )
      return follow(nonce, 1)
    }
    log.error({ network, nonce }, 'a settlement was not stored, or not in time; its account nonce is filled')
    abandoned.add(nonce)
    repairs.repairIn(0)
  }

  return {
    address,
    id,
    repair: repairs.repair,
    get inFlight() {
      return live.size
    },
    get paymentsInFlight() {
      return known.payments
    },
    get oldestMs() {
      return known.oldestMs
    },
    get hasGaps() {
      if (repairs.hasGaps) return true
      // Seldom, and only while something waits: what a former process had filled nobody here would miss.
      if (
        live.size > 0 &&
        performance.now() - repairs.lookedAtMs >= strandedMs(known.usedBelow < onlySaid.below)
      )
        return true
      return known.hasFillers
    },
    get committedWei() {
      return known.committedWei
    },
    async sign(call, gas, fees, stores) {
      const nonce = await queue.take()
      const mostWei = BigInt(gas) * fees.maxFeePerGas
      const payments = stores.length
      let answers: (boolean | undefined)[] = []
      let attempt: SettlementAttempt | undefined
      // What is not stored yet counts, and is not sent.
      live.set(nonce, { bytes: '', mostWei, payments, sinceMs: performance.now() })
      try {
        const own = { ...signed(call, nonce, gas, fees), ...(payments > 1 && { isShared: true as const }) }
        answers = await Promise.all(stores.map((store) => storeWith(store, own)))
        if (answers.every((answer) => answer === true)) attempt = own
      } finally {
        if (attempt !== undefined)
          live.set(nonce, {
            ...{ bytes: attempt.bytes, mostWei, payments, isStored: true },
            sinceMs: performance.now(),
          })
        else {
          live.delete(nonce)
          if (answers.some((answer) => answer !== false)) await giveUp(nonce, payments)
          else await giveBack(nonce)
        }
      }
      return { attempt, isStored: answers.map((answer) => answer === true) }
    },
    async adopt(attempts, mayStill = () => true, bookedNumbers) {
      mayGoOn = mayStill
      const askBooks = bookedNumbers && askOnce(bookedNumbers)
      watch.begin(askBooks)
      onlySaid.adopt(noneBooked, new Set())
      const open = attempts.filter(({ isMined }) => isMined !== true)
      const byNonce = Map.groupBy(open, ({ sequence }) => Number(sequence))
      const toSend = sendable(open)
      formerlyMined.clear()
      for (const { isMined, sequence } of attempts)
        if (isMined === true && !byNonce.has(Number(sequence))) formerlyMined.add(Number(sequence))
      for (const nonce of formerlyMined) {
        queue.raiseAbove(nonce)
        formerlyUsedBelow = Math.max(formerlyUsedBelow, nonce + 1)
      }
      await forgetUsed()
      const highest = Math.max(-1, ...byNonce.keys())
      if (highest < 0) {
        // What another process has landed while it had the key.
        if (live.size > 0) await repairs.repair()
        return
      }
      queue.raiseAbove(highest)
      for (const [nonce, those] of byNonce) {
        if (toSend.get(nonce)) {
          // Also where this process had given it up, before another one had the key.
          abandoned.delete(nonce)
          follow(nonce, those.length, those.at(-1)!.bytes)
        } else abandoned.add(nonce)
      }
      // What is not stored below a payment that left the chain may have left it as well, and be stored as settled still.
      const underWay = open.filter(({ isReorged }) => isReorged !== true)
      repairs.adoptBelow(Math.max(0, ...underWay.map(({ sequence }) => Number(sequence))))
      await Promise.all([repairs.repair(), adoptOnlySaid(attempts, askBooks)])
    },
    mined: ({ sequence, bytes }) => known.mined(Number(sequence), bytes),
    abandon({ sequence }) {
      if (!live.delete(Number(sequence)) && Number(sequence) >= (queue.next ?? 0)) return
      // Who fills it has it, also where the queue only supposes that it is used.
      queue.raiseAbove(Number(sequence))
      abandoned.add(Number(sequence))
    },
    async followUp(openAttempts) {
      openInStore = async () => sendable(await openAttempts())
      const stored = new Set([...live].flatMap(([nonce, { isStored }]) => (isStored ? [nonce] : [])))
      const old = [...stored].filter((nonce) => lingering.has(nonce))
      lingering = stored
      await forgetUsed()
      if (old.length + formerlyMined.size === 0) return
      const open = await openInStore()
      for (const nonce of formerlyMined) {
        if (!open.has(nonce)) continue
        // The books know that it has left the chain: from now on it is followed like whatever is open.
        formerlyMined.delete(nonce)
        follow(nonce, 1)
      }
      const concluded = old.filter((nonce) => !open.has(nonce) && live.get(nonce)?.isStored)
      // What a former process has signed: who looks after its payments has found that it is never sent.
      const unsent = old.filter((nonce) => open.get(nonce) === false && live.get(nonce)?.bytes === '')
      if (concluded.length + unsent.length === 0) return
      for (const nonce of [...concluded, ...unsent]) {
        live.delete(nonce)
        abandoned.add(nonce)
      }
      log.info(
        { network, concluded, unsent },
        'another process has concluded payments of this account, or says that they were never sent',
      )
      await repairs.repair()
    },
    recheck: () => queue.recheck(),
    lookForOthers: watch.look,
    get isShared() {
      return watch.isShared
    },
    async nonces() {
      const [mined, pending] = await Promise.all([countOf('latest'), countOf('pending')])
      return { mined, pending }
    },
    close: repairs.close,
  }
}
