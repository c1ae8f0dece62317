import type { Payments } from '../payments/payments.ts'
import type { AnswerMemory } from '../ports/answerMemory.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { Clock } from '../ports/clock.ts'
import type { Counters } from '../ports/counters.ts'
import type { Egress } from '../ports/egress.ts'
import type { JobLine } from '../ports/jobLine.ts'
import type { Log } from '../ports/log.ts'
import type { Metrics } from '../ports/metrics.ts'
import type { Sealer } from '../ports/sealer.ts'
import type { Changes } from '../ports/store/changes.ts'
import type { Figures } from '../ports/store/figures.ts'
import type { HealthChecks } from '../ports/store/healthChecks.ts'
import type { Leases } from '../ports/store/leases.ts'
import type { Links } from '../ports/store/links.ts'
import type { Purchases } from '../ports/store/purchases.ts'

/** Everything that a gateway plugin may ask for by name in `needs`. What it did not name is not there at run time. */
export interface GatewayPorts {
  clock: Clock
  log: Log
  counters: Counters
  links: Links
  changes: Changes
  /** The payment engine: nobody else writes the books. */
  payments: Payments
  purchases: Purchases
  figures: Figures
  healthChecks: HealthChecks
  leases: Leases
  egress: Egress
  sealer: Sealer
  metrics: Metrics
  /** The networks that can be paid on, and the assets taken there, in the order in which they are offered. */
  chains: Chains
  service: ServiceFacts
  /** To the process that does the background work. */
  jobLine: JobLine
  /** For answers that are held: until they are charged, or until they have been read. */
  answerMemory: AnswerMemory
}

export interface ServiceFacts {
  /** Base URL that buyers see, without a trailing slash; never taken from a request. */
  readonly publicUrl: string
  readonly name: string
  /** Name of the metadata field of wrapped answers: `_svc`. */
  readonly metadataField: string
  /** This process. */
  readonly instanceId: string
  /** True in a process that may do background work: health probes, recovery. `jobLine.isHere` says which of several does. */
  readonly runsJobs: boolean
}

export type PortName = keyof GatewayPorts
