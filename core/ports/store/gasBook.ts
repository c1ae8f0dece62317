import type { NetworkId } from '../../domain/network.ts'

/** The gas cost of one store's settlements on one network in one day. */
export interface GasOfStore {
  readonly storeId: string
  /** Days since 1970, UTC. */
  readonly day: number
  /** In the smallest unit of the network's coin, which is wei on EVM networks and lamports on Solana. */
  readonly spent: bigint
}

/** Records the gas that was spent for each store. All processes share the day's sum, and a restart does not reset it. */
export interface GasBook {
  /** The sums of this day and of later days, which a fast clock may have written. */
  read(network: NetworkId, fromDay: number): Promise<readonly GasOfStore[]>
  /**
   * Adds to a store's sum of that day, atomically with other processes. A negative amount is a refund. It also deletes old days.
   *
   * @returns the sum, including the amounts of other processes
   */
  add(network: NetworkId, gas: GasOfStore): Promise<bigint>
}
