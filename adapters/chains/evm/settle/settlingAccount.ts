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
import { createNonceQueue } from './nonceQueue.ts'
import { addressOfKey, signTransaction } from './signTransaction.ts'

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
  /** Fees for a transaction that only uses up a nonce; undefined while they are above the cap. */
  readonly currentFees: () => Promise<Fees | undefined>
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
  /** The most that these can cost, in wei: a node takes no further transaction that the balance does not cover as well. */
  readonly committedWei: bigint
  /**
   * Signs with the next nonce and hands the attempt to `store`; undefined, and the nonce free again, when it says no. As
   * many as come do so at once, so that what they store is one group. Whoever's store does not answer in time gets
   * undefined as well; its bytes may be stored in the end, so another transaction uses up its nonce.
   */
  sign(
    call: EvmCall,
    fees: Fees,
    store: (attempt: SettlementAttempt) => Promise<boolean>,
  ): Promise<SettlementAttempt | undefined>
  /**
   * Whether there can be nonces that no payment will use, which hold up the later ones: {@link SettlingAccount.repair}
   * fills them.
   */
  readonly hasGaps: boolean
  /** Takes up what a former process signed, before anything new is. */
  adopt(attempts: readonly OpenAttempt[]): Promise<void>
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
  /** What was stored and not known to be mined when it was last followed up. */
  let lingering = new Set<number>()
  let repairing: Promise<void> | undefined
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  let againMs = REPAIR_AGAIN_MS

  const signed = (call: EvmCall, nonce: number, gas: number, fees: Fees): SettlementAttempt => {
    const { bytes, hash } = signTransaction({ ...call, ...fees, chainId, nonce, gas }, key)
    return { settler: id, bytes, transaction: hash, sequence: String(nonce) }
  }

  /** Uses up a nonce whose transaction is pointless now: nothing to ourselves, at today's fees. */
  const fill = async (nonce: number): Promise<void> => {
    const fees = await currentFees()
    if (fees === undefined) return
    const filler = signed({ to: address, data: '0x' }, nonce, 21_000, fees)
    const { taken } = await broadcast(rpc, filler.bytes)
    log.info({ network, nonce, taken }, 'filled an account nonce that no payment will use')
    if (taken === 'yes') {
      abandoned.delete(nonce)
      live.set(nonce, { bytes: filler.bytes, mostWei: 21_000n * fees.maxFeePerGas, isFiller: true })
    }
  }

  /**
   * Nonces from the next one on that nobody here knows, while transactions have waited behind them for long enough. A former
   * process used them, and a reorganisation took that back.
   */
  const strandedAt = (next: number): number[] => {
    const waiting = Math.min(...[...live.keys()].filter((nonce) => nonce >= next))
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

  const repairOnce = async (): Promise<void> => {
    for (const nonce of queue.takeGaps()) abandoned.add(nonce)
    const [mined, pooled] = [await countOf('latest'), await countOf('pending')]
    for (let nonce = pooled; nonce < adoptedBelow; nonce++) if (!live.has(nonce)) abandoned.add(nonce)
    adoptedBelow = 0
    lookedAtMs = performance.now()
    for (const [nonce, { bytes, isFiller }] of live) {
      if (nonce >= mined) continue
      live.delete(nonce)
      if (bytes !== '') used.set(nonce, { bytes, isFiller: isFiller === true })
    }
    for (const nonce of used.keys()) if (nonce < mined - REORG_NONCES) used.delete(nonce)
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

  return {
    address,
    id,
    repair,
    get inFlight() {
      return live.size
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
    async sign(call, fees, store) {
      const nonce = await queue.take()
      const mostWei = BigInt(maxGas) * fees.maxFeePerGas
      let stored: boolean | undefined = false
      // What is not stored yet counts, and is not sent.
      live.set(nonce, { bytes: '', mostWei })
      try {
        const attempt = signed(call, nonce, maxGas, fees)
        stored = await within(store(attempt), options.storeTimeoutMs)
        if (!stored) return undefined
        live.set(nonce, { bytes: attempt.bytes, mostWei, isStored: true })
        return attempt
      } finally {
        if (!stored) live.delete(nonce)
        if (stored === undefined) {
          log.error({ network, nonce }, 'a settlement was not stored in time; its account nonce is filled')
          abandoned.add(nonce)
          repairIn(0)
        } else if (!stored) {
          queue.giveBack(nonce)
          if (queue.hasGaps) repairIn(GAP_MS)
        }
      }
    },
    async adopt(attempts) {
      const bytesOf = new Map(attempts.map(({ sequence, bytes }) => [Number(sequence), bytes]))
      const highest = Math.max(-1, ...bytesOf.keys())
      if (highest < 0) return
      queue.raiseAbove(highest)
      const mostWei = BigInt(maxGas) * options.maxFeePerGasWei
      for (const [nonce, bytes] of bytesOf) live.set(nonce, { bytes, mostWei, isStored: true })
      // What is not stored below a payment that left the chain may have left it as well, and be stored as settled still.
      const underWay = attempts.filter(({ isReorged }) => isReorged !== true)
      adoptedBelow = Math.max(adoptedBelow, ...underWay.map(({ sequence }) => Number(sequence)))
      await repair()
    },
    mined({ sequence, bytes }) {
      const nonce = Number(sequence)
      live.delete(nonce)
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
      if (old.length === 0) return
      const open = await openInStore()
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
  /** Its attempt is in the store. */
  readonly isStored?: true
  readonly isFiller?: true
}

/** What was promised, or undefined when it takes too long. A rejection is passed on; one that comes later is not heard. */
async function within(promised: Promise<boolean>, ms: number): Promise<boolean | undefined> {
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
