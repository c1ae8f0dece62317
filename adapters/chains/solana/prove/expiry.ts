import type { Clock } from '../../../../core/ports/clock.ts'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import type { TracedPayment } from '../../facilitator/chainReader.ts'
import { type Rpc, rpcCodes, type WithContext } from '../rpc/nodes.ts'

/** Assumed length of a node's history if the node does not report it, in ms. */
const ASSUMED_HISTORY_MS = 3_600_000

/** A transaction that may have expired. */
export interface Lapsing {
  /** Base58. */
  readonly blockhash: string
  /**
   * A slot at which a node had the block hash. A later finalized slot without the hash then proves that the hash has expired. Null
   * if no node had it.
   */
  readonly seenSlot: number | null
  /**
   * The time by which the hash must have expired by any clock. Without a seen slot, this time distinguishes an expired hash from
   * one that is too new.
   */
  readonly validBeforeMs: number
}

/** Checks whether the chain can still accept a transaction that is not on it. Transactions share their requests. */
export interface Expiry {
  /** For each of these block hashes that is out of use for good, the finalized slot that proves it. Other hashes have no entry. */
  slotsOf(all: readonly Lapsing[]): Promise<Map<Lapsing, number>>
  /** The start of the node's history, in ms since 1970. For an earlier transaction, "not found" proves nothing. */
  historyMs(): Promise<number>
}

/** Queries nodes about block hashes. */
export function createExpiry(rpc: Rpc, clock: Clock): Expiry {
  return {
    async slotsOf(all) {
      const slots = new Map<Lapsing, number>()
      const hashes = [...new Set(all.map(({ blockhash }) => blockhash))]
      // Finalized blocks also lack a hash that is too new for them. So the function requests both commitments and compares the slot
      // or the clock.
      const levels = ['confirmed', 'finalized'] as const
      const responses = await rpc.many<WithContext<boolean>>(
        hashes.flatMap((blockhash) =>
          levels.map((commitment) => ({ method: 'isBlockhashValid', params: [blockhash, { commitment }] })),
        ),
      )
      const expired = new Map<string, number>()
      for (const [i, blockhash] of hashes.entries()) {
        const [confirmed, finalized] = [responses[2 * i]!, responses[2 * i + 1]!]
        if (!confirmed.ok || !finalized.ok) continue
        if (confirmed.result.value === false && finalized.result.value === false)
          expired.set(blockhash, finalized.result.context.slot)
      }
      for (const one of all) {
        const slot = expired.get(one.blockhash)
        if (slot === undefined) continue
        const isForgotten = one.seenSlot === null ? clock.now() >= one.validBeforeMs : slot >= one.seenSlot
        if (isForgotten) slots.set(one, slot)
      }
      return slots
    },

    async historyMs() {
      try {
        const slot = await rpc.call<number>('getFirstAvailableBlock')
        const seconds = await rpc.call<number | null>('getBlockTime', slot)
        return seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000
      } catch (error) {
        const isUnknown = error instanceof RpcRefused && error.code === rpcCodes.methodNotFound
        return isUnknown ? clock.now() - ASSUMED_HISTORY_MS : Number.POSITIVE_INFINITY
      }
    },
  }
}

/** A slot at which the chain had a payment's block hash. It is the slot of the payment's block or of its verification. */
export function seenSlotOf({ block, attempt }: TracedPayment): number | null {
  if (block != null) return block
  const slot = Number(attempt?.sequence ?? Number.NaN)
  return Number.isSafeInteger(slot) ? slot : null
}
