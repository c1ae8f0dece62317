import type { NetworkId } from '../../../../core/domain/network.ts'
import type { OpenAttempt, SettlementAttempt } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/address.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import type { EvmCall } from '../../../../core/evm/token.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import { broadcast } from './broadcast.ts'
import type { Fees } from './fees.ts'
import { createKeyWatch, type KeyWatch } from './keyWatch.ts'
import { createNonceQueue } from './nonceQueue.ts'
import { addressOfKey, signTransaction } from './signTransaction.ts'
import { within } from './within.ts'

/** So many account nonces a reorganisation may take back. */
const REORG_NONCES = 256
/** Before a nonce that was given back is filled: the next payment may use it. */
const GAP_MS = 250
/** Before what could not be filled is tried again, and twice as late each time up to the most. */
const REPAIR_AGAIN_MS = 100
const MAX_REPAIR_AGAIN_MS = 5_000

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
   */
  adopt(attempts: readonly OpenAttempt[], mayGoOn?: () => boolean): Promise<void>
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
  const queue = createNonceQueue(() => countOf('pending'))
  /** By nonce, until they are mined. */
  const live = new Map<number, Live>()
  const abandoned = new Set<number>()
  /** Bytes that were mined: a reorganisation can leave them out again, and what came after them waits for nothing else. */
  const used = new Map<number, { readonly bytes: string; readonly isFiller: boolean }>()
  /** The lowest nonce that transactions wait behind and nobody here knows, since when. */
  let stranded: { readonly nonce: number; readonly sinceMs: number } | undefined
  /** Account nonces of payments that are open in the store; undefined until somebody told the way there. */
  let openInStore: (() => Promise<ReadonlySet<number>>) | undefined
  let lookedAtMs = performance.now()
  /** Below this a former process signed, and which of its nonces nobody stored has to be found out. */
  let adoptedBelow = 0
  /** Numbers that payments of former processes were settled with not long ago, and that the chain has not used any more. */
  const formerlyMined = new Set<number>()
  /** Numbers follow each other: those below are used, by whichever transaction. */
  let usedBelow = 0
  /** What was stored and not known to be mined when it was last followed up. */
  let lingering = new Set<number>()
  let mayGoOn: () => boolean = () => true
  let repairing: Promise<void> | undefined
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  let againMs = REPAIR_AGAIN_MS

  const watch = createKeyWatch({
    ...{ network, address, log, queue, countOf, sharedKeyMs: options.sharedKeyMs },
    isLive: (nonce) => live.has(nonce),
    openInStore: () => openInStore?.(),
  })

  const signed = (call: EvmCall, nonce: number, gas: number, fees: Fees): SettlementAttempt => {
    const { bytes, hash } = signTransaction({ ...call, ...fees, chainId, nonce, gas }, key)
    return { settler: id, bytes, transaction: hash, sequence: String(nonce) }
  }

  /** Uses up a nonce whose transaction is pointless now: nothing to ourselves, at today's fees. */
  const fill = async (nonce: number): Promise<void> => {
    const fees = await currentFees()
    // Another process has the key by now, and may have a payment for this number.
    if (fees === undefined || !mayGoOn()) return
    const filler = signed({ to: address, data: '0x' }, nonce, 21_000, fees)
    const { taken } = await broadcast(rpc, filler.bytes)
    log.info({ network, nonce, taken }, 'filled an account nonce that no payment will use')
    if (taken === 'yes') {
      abandoned.delete(nonce)
      const mostWei = 21_000n * fees.maxFeePerGas
      const sinceMs = performance.now()
      live.set(nonce, { bytes: filler.bytes, mostWei, payments: 0, sinceMs, isFiller: true })
    }
  }

  /**
   * Nonces from the next one on that nobody here knows, while transactions have waited behind them for long enough. A former
   * process used them, and a reorganisation took that back.
   */
  const strandedAt = (next: number): number[] => {
    // One whose payment is over waits as well: its bytes may be in the pool still, and nothing can take their place there.
    const waiting = Math.min(...[...live.keys(), ...abandoned].filter((nonce) => nonce >= next))
    const isKnown = (nonce: number) => live.has(nonce) || abandoned.has(nonce) || used.has(nonce)
    if (waiting === Number.POSITIVE_INFINITY || isKnown(next)) {
      stranded = undefined
      return []
    }
    const nowMs = performance.now()
    if (stranded?.nonce !== next) stranded = { nonce: next, sinceMs: nowMs }
    else if (nowMs - stranded.sinceMs >= options.strandedMs)
      return Array.from({ length: waiting - next }, (_, i) => next + i).filter((nonce) => !isKnown(nonce))
    return []
  }

  /** What the store has a payment for is the recovery's to send again, as it was signed. */
  const withoutOpen = async (nonces: readonly number[]): Promise<readonly number[]> => {
    if (nonces.length === 0 || openInStore === undefined) return nonces
    const open = await openInStore()
    return nonces.filter((nonce) => !open.has(nonce))
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
      const mostWei = BigInt(maxGas) * options.maxFeePerGasWei
      live.set(nonce, { bytes: '', mostWei, payments: 1, sinceMs: performance.now(), isStored: true })
      return queue.recheck()
    }
    queue.giveBack(nonce)
    if (queue.hasGaps) repairIn(GAP_MS)
  }

  const repairOnce = async (): Promise<void> => {
    if (!mayGoOn()) return
    for (const nonce of queue.takeGaps()) abandoned.add(nonce)
    const [mined, pooled] = [await countOf('latest'), await countOf('pending')]
    // What a reorganisation took back is the recovery's to send again, as it was signed.
    for (let nonce = pooled; nonce < adoptedBelow; nonce++)
      if (!live.has(nonce) && !formerlyMined.has(nonce)) abandoned.add(nonce)
    adoptedBelow = 0
    lookedAtMs = performance.now()
    for (const [nonce, { bytes, isFiller }] of live) {
      if (nonce >= mined) continue
      live.delete(nonce)
      if (bytes !== '') used.set(nonce, { bytes, isFiller: isFiller === true })
    }
    for (const nonce of used.keys()) if (nonce < mined - REORG_NONCES) used.delete(nonce)
    for (const nonce of formerlyMined) if (nonce < mined) formerlyMined.delete(nonce)
    // Given back meanwhile.
    for (const nonce of queue.takeGaps()) abandoned.add(nonce)
    for (const nonce of await withoutOpen(strandedAt(pooled))) abandoned.add(nonce)
    for (const nonce of abandoned) if (nonce < mined) abandoned.delete(nonce)
    for (const nonce of [...live.keys(), ...abandoned, ...used.keys()].sort((a, b) => a - b)) {
      if (isClosed) return
      if (nonce < pooled) continue
      const bytes = live.get(nonce)?.bytes ?? used.get(nonce)?.bytes
      if (bytes !== undefined && bytes !== '') await broadcast(rpc, bytes)
      else if (abandoned.has(nonce)) await fill(nonce)
    }
  }

  const hasGaps = () => queue.hasGaps || abandoned.size > 0 || adoptedBelow > 0 || stranded !== undefined

  const repair = (): Promise<void> => {
    repairing ??= repairOnce()
      .catch((error: unknown) => {
        // Nobody could see that it is there still.
        stranded = undefined
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

  /** Of numbers that the chain has used nothing has to be known: which is all of them where nothing has left it. */
  const forgetUsed = async (): Promise<void> => {
    if (formerlyMined.size === 0) return
    const pooled = await countOf('pending').catch(() => 0)
    for (const nonce of formerlyMined) if (nonce < pooled) formerlyMined.delete(nonce)
  }

  /** What a former process has signed: its bytes are the recovery's to send. */
  const adopted = () => ({
    ...{ bytes: '', mostWei: BigInt(maxGas) * options.maxFeePerGasWei },
    ...{ sinceMs: performance.now(), isStored: true as const },
  })

  /** @returns undefined when it takes too long */
  const storeWith = async (store: Store, attempt: SettlementAttempt): Promise<boolean | undefined> => {
    try {
      return await within(store(attempt), options.storeTimeoutMs)
    } catch (error) {
      log.warn({ network, error: String(error) }, 'a settlement could not be stored')
      return false
    }
  }

  /** Some payment has bytes with this nonce in the store, or may have, and they are never sent. */
  const giveUp = (nonce: number): void => {
    log.error({ network, nonce }, 'a settlement was not stored, or not in time; its account nonce is filled')
    abandoned.add(nonce)
    repairIn(0)
  }

  return {
    address,
    id,
    repair,
    get inFlight() {
      return live.size
    },
    get paymentsInFlight() {
      let sum = 0
      for (const { payments } of live.values()) sum += payments
      return sum
    },
    get oldestMs() {
      const nowMs = performance.now()
      let sinceMs = nowMs
      for (const [nonce, one] of live)
        if (nonce >= usedBelow && one.bytes !== '') sinceMs = Math.min(sinceMs, one.sinceMs)
      return nowMs - sinceMs
    },
    get hasGaps() {
      if (hasGaps()) return true
      // Seldom, and only while something waits: what a former process had filled nobody here would miss.
      if (live.size > 0 && performance.now() - lookedAtMs >= options.strandedMs) return true
      return [...live.values(), ...used.values()].some(({ isFiller }) => isFiller)
    },
    get committedWei() {
      let sum = 0n
      for (const { mostWei } of live.values()) sum += mostWei
      return sum
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
          if (answers.some((answer) => answer !== false)) giveUp(nonce)
          else await giveBack(nonce)
        }
      }
      return { attempt, isStored: answers.map((answer) => answer === true) }
    },
    async adopt(attempts, mayStill = () => true) {
      mayGoOn = mayStill
      watch.begin()
      const open = attempts.filter(({ isMined }) => isMined !== true)
      const bytesOf = new Map(open.map(({ sequence, bytes }) => [Number(sequence), bytes]))
      formerlyMined.clear()
      for (const { isMined, sequence } of attempts)
        if (isMined === true && !bytesOf.has(Number(sequence))) formerlyMined.add(Number(sequence))
      for (const nonce of formerlyMined) queue.raiseAbove(nonce)
      await forgetUsed()
      const highest = Math.max(-1, ...bytesOf.keys())
      if (highest < 0) {
        // What another process has landed while it had the key.
        if (live.size > 0) await repair()
        return
      }
      queue.raiseAbove(highest)
      const mostWei = BigInt(maxGas) * options.maxFeePerGasWei
      const byNonce = Map.groupBy(open, ({ sequence }) => Number(sequence))
      const sinceMs = performance.now()
      for (const [nonce, bytes] of bytesOf)
        live.set(nonce, { bytes, mostWei, payments: byNonce.get(nonce)!.length, sinceMs, isStored: true })
      // What is not stored below a payment that left the chain may have left it as well, and be stored as settled still.
      const underWay = open.filter(({ isReorged }) => isReorged !== true)
      adoptedBelow = Math.max(adoptedBelow, ...underWay.map(({ sequence }) => Number(sequence)))
      await repair()
    },
    mined({ sequence, bytes }) {
      const nonce = Number(sequence)
      live.delete(nonce)
      usedBelow = Math.max(usedBelow, nonce + 1)
      if (bytes !== '') used.set(nonce, { bytes, isFiller: false })
      // Numbers follow each other: so many are kept, however many there have been.
      used.delete(nonce - REORG_NONCES)
    },
    abandon({ sequence }) {
      if (!live.delete(Number(sequence)) && Number(sequence) >= (queue.next ?? 0)) return
      abandoned.add(Number(sequence))
    },
    async followUp(openAttempts) {
      openInStore = async () => new Set((await openAttempts()).map(({ sequence }) => Number(sequence)))
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
        live.set(nonce, { ...adopted(), payments: 1 })
      }
      const concluded = old.filter((nonce) => !open.has(nonce) && live.get(nonce)?.isStored)
      if (concluded.length === 0) return
      for (const nonce of concluded) {
        live.delete(nonce)
        abandoned.add(nonce)
      }
      log.info({ network, nonces: concluded }, 'another process has concluded payments of this account')
      await repair()
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
    async close() {
      isClosed = true
      clearTimeout(timer)
      await repairing
    },
  }
}

/** A transaction on its way. */
interface Live {
  /** Signed; empty while it is not stored yet, or where a former process has signed it. */
  readonly bytes: string
  /** The most that it can cost. */
  readonly mostWei: bigint
  /** How many it settles. */
  readonly payments: number
  /** By this machine's monotonic clock: since when it waits for its block. */
  readonly sinceMs: number
  /** Its attempt is in the store. */
  readonly isStored?: true
  readonly isFiller?: true
}
