import type { Payments } from '../../core/payments/payments.ts'
import type { ChannelChain } from '../../core/ports/chains/channelChain.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import type { ChannelBooks } from '../../core/ports/store/channelBooks.ts'
import type { Channels } from '../../core/ports/store/channels.ts'
import type { Leases } from '../../core/ports/store/leases.ts'
import type { Ledger } from '../../core/ports/store/ledger.ts'
import type { Mailbox } from '../../core/ports/store/mailbox.ts'

/** A mistake, put between the processes of a simulation and what they stand on: it has to be found. */
export interface Plant {
  readonly ledger?: (ledger: Ledger) => Ledger
  readonly leases?: (leases: Leases) => Leases
  readonly mailbox?: (mailbox: Mailbox) => Mailbox
  readonly settler?: (settler: Settler) => Settler
  /** How calls are charged. */
  readonly settle?: (settle: Payments['settle'], settler: Settler) => Payments['settle']
  readonly channels?: (channels: Channels) => Channels
  /** @param execute runs SQL in the database, besides its transactions */
  readonly channelBooks?: (books: ChannelBooks, execute: (sql: string) => void) => ChannelBooks
  readonly channelChain?: (chain: ChannelChain) => ChannelChain
  /** The recovery believes that no call runs in its process. */
  readonly isNothingUnderWay?: true
}
