import type { Clock } from '../../../../core/ports/clock.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import type { TracedPayment } from '../../facilitator/chainReader.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'
import { rpcCodes } from '../rpc/rpcCodes.ts'

/** For nodes that do not say how far their history goes: how long every node's is assumed to, in ms. */
const ASSUMED_HISTORY_MS = 3_600_000

/** A transaction that may be too late. */
export interface Lapsing {
  /** Base58. */
  readonly blockhash: string
  /**
   * A slot at which a node knew the block hash, so that a finalized block behind it that does not know it has forgotten it;
   * null where nobody has seen it.
   */
  readonly seenSlot: number | null
  /** When the hash must have expired by any clock: what tells a forgotten one from one too new, where nobody has seen it. */
  readonly validBeforeMs: number
}

/** Whether the chain can still take what is not on it. Each question is asked once for all that want to know. */
export interface Expiry {
  /** The finalized slot at which each of these block hashes was out of use for good; those that are not are left out. */
  slotsOf(all: readonly Lapsing[]): Promise<Map<Lapsing, number>>
  /** From when on the node knows what happened, in ms since 1970, so that "not found" means something. */
  historyMs(): Promise<number>
}

/** Asks nodes about block hashes. */
export function createExpiry(rpc: Rpc, clock: Clock): Expiry {
  return {
    async slotsOf(all) {
      const slots = new Map<Lapsing, number>()
      const hashes = [...new Set(all.map(({ blockhash }) => blockhash))]
      // One that is too new for finalized blocks is not known there either, hence both questions, and the slot or the clock.
      const levels = ['confirmed', 'finalized'] as const
      const answers = await rpc.many<WithContext<boolean>>(
        hashes.flatMap((blockhash) =>
          levels.map((commitment) => ({ method: 'isBlockhashValid', params: [blockhash, { commitment }] })),
        ),
      )
      const expired = new Map<string, number>()
      for (const [i, blockhash] of hashes.entries()) {
        const [confirmed, finalized] = [answers[2 * i]!, answers[2 * i + 1]!]
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

/** A slot at which the chain knew a payment's block hash: that of its block, or of its verification. */
export function seenSlotOf({ block, attempt }: TracedPayment): number | null {
  if (block != null) return block
  const slot = Number(attempt?.sequence ?? Number.NaN)
  return Number.isSafeInteger(slot) ? slot : null
}
