import type { NetworkId } from '../../domain/network.ts'

/** What the settlements of one store have cost on one network in one day. */
export interface GasOfStore {
  readonly storeId: string
  /** Days since 1970, UTC. */
  readonly day: number
  /** In the smallest unit of the network's coin: wei, lamports. */
  readonly spent: bigint
}

/** Keeps what gas was spent for whom, so that a restart does not begin the day anew, and processes that spend side by side have one. */
export interface GasBook {
  /** Of this day and later ones: a clock that was ahead may have written those. */
  read(network: NetworkId, fromDay: number): Promise<readonly GasOfStore[]>
  /**
   * Adds to a store's sum of that day, whoever else adds meanwhile; what is negative is given back. Days long past go.
   *
   * @returns the sum, with what all others have added
   */
  add(network: NetworkId, gas: GasOfStore): Promise<bigint>
}
