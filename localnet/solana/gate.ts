import type { WireTransaction } from './wireTransaction.ts'

/** Stands between "accepted by the node" and "in a block", where real chains delay and lose transactions. */
export type Gate = {
  submit(transaction: WireTransaction): void
  hold(): void
  /** Lands what was held, in order; returns how many landed. */
  release(): number
  dropNext(count?: number): void
}

/** @param land takes a transaction into a block; answers false when no block can have it any more. */
export function createGate(land: (transaction: WireTransaction) => boolean): Gate {
  let isHolding = false
  let toDrop = 0
  const held: WireTransaction[] = []
  return {
    submit(transaction) {
      if (toDrop > 0) toDrop -= 1
      else if (isHolding) held.push(transaction)
      else land(transaction)
    },
    hold() {
      isHolding = true
    },
    release() {
      isHolding = false
      return held.splice(0).filter(land).length
    },
    dropNext(count = 1) {
      toDrop += count
    },
  }
}
