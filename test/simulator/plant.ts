import type { Settler } from '../../core/ports/chains/settler.ts'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { Ledger } from '../../core/ports/store/ledger.ts'
import type { Mailbox } from '../../core/ports/store/mailbox.ts'

/** A mistake, put between the processes of a simulation and what they stand on: it has to be found. */
export interface Plant {
  readonly ledger?: (ledger: Ledger) => Ledger
  readonly leases?: (leases: Leases) => Leases
  readonly mailbox?: (mailbox: Mailbox) => Mailbox
  /** Of the settler that has the key, where gateways share one. */
  readonly settler?: (settler: Settler) => Settler
  /** The recovery believes that no call runs in its process. */
  readonly isNothingUnderWay?: true
}
