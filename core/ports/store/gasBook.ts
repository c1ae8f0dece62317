import type { NetworkId } from '../../domain/network.ts'

/** What the settlements of one store have cost on one network in one day. */
export interface GasOfStore {
  readonly storeId: string
  /** Days since 1970, UTC. */
  readonly day: number
  /** In the smallest unit of the network's coin: wei, lamports. */
  readonly spent: bigint
}

/** Keeps what gas was spent for whom, so that a restart does not begin the day anew. */
export interface GasBook {
  /** Of this day and later ones: a clock that was ahead may have written those. */
  read(network: NetworkId, fromDay: number): Promise<readonly GasOfStore[]>
  /** Puts a store's sum in the place of the former one of that day; days long past go. */
  write(network: NetworkId, gas: GasOfStore): Promise<void>
}
