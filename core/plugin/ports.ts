import type { ChannelCalls } from '../channels/channelCalls.ts'
import type { Payments } from '../payments/payments.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { WalletProofs } from '../ports/chains/wallets.ts'
import type { Clock } from '../ports/clock.ts'
import type { Counters } from '../ports/counters.ts'
import type { Egress } from '../ports/egress.ts'
import type { JobChannel } from '../ports/jobChannel.ts'
import type { Log } from '../ports/log.ts'
import type { Metrics } from '../ports/metrics.ts'
import type { ReceiptSigner } from '../ports/receiptSigner.ts'
import type { ResponseBuffer } from '../ports/responseBuffer.ts'
import type { Sealer } from '../ports/sealer.ts'
import type { Changes } from '../ports/store/changes.ts'
import type { HealthChecks } from '../ports/store/healthChecks.ts'
import type { Leases } from '../ports/store/leases.ts'
import type { Links } from '../ports/store/links.ts'
import type { Purchases } from '../ports/store/purchases.ts'
import type { Stats } from '../ports/store/stats.ts'
import type { SignInNonces } from '../ports/store/stores.ts'

/** The ports that a gateway plugin may request by name in `needs`. A plugin gets only the ports that it names. */
export interface GatewayPorts {
  clock: Clock
  log: Log
  counters: Counters
  links: Links
  changes: Changes
  /** The payment engine, which is the only writer of the ledger. */
  payments: Payments
  /** Sales by payment channels. Null if no network has channels. */
  channels: ChannelCalls | null
  purchases: Purchases
  stats: Stats
  healthChecks: HealthChecks
  leases: Leases
  egress: Egress
  sealer: Sealer
  /** Signs offers and receipts. */
  receiptSigner: ReceiptSigner
  metrics: Metrics
  /** The networks on which buyers can pay, and the accepted assets in the order of the offer. */
  chains: Chains
  /** Checks which wallet has signed a text. */
  walletProofs: WalletProofs
  /** The nonces of sign-ins, in the database of all gateways. */
  nonces: SignInNonces
  service: ServiceFacts
  /** Sends notes to the process that does the background work. */
  jobChannel: JobChannel
  /** Memory for responses that wait to be charged or to be read. */
  responseBuffer: ResponseBuffer
}

export interface ServiceFacts {
  /** Base URL that buyers see, without a trailing slash. It comes from the configuration, never from a request. */
  readonly publicUrl: string
  readonly name: string
  /** Name of the metadata field in wrapped responses, such as `_svc`. */
  readonly metadataField: string
  /** Id of this process. */
  readonly instanceId: string
  /**
   * True in a process that may do background work, such as health probes and recovery. If several processes may,
   * `jobChannel.isHere` is true in the one process that does the work.
   */
  readonly runsJobs: boolean
}

export type PortName = keyof GatewayPorts
