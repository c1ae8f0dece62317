import type { NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import type { Change } from '../../../core/ports/changes.ts'
import type { SettleOutcome } from '../../../core/ports/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'

/** What a worker says to the primary. `call` pairs a question with its answers; it is unique in its worker. */
export type FromWorker =
  /** It hears from here on; what was said before is lost. */
  | { readonly type: 'ready' }
  | { readonly type: 'listening'; readonly gatewayUrl: string }
  | {
      readonly type: 'settle'
      readonly call: number
      readonly network: string
      readonly payment: PaymentPayload
      readonly terms: PaymentRequirements
      readonly identity: PaymentIdentity
    }
  /** Whether the attempt is on disk. Without a true, the primary broadcasts nothing. */
  | { readonly type: 'stored'; readonly call: number; readonly ok: boolean }
  /** For a job of the primary: see `JobLine`. */
  | { readonly type: 'note'; readonly topic: string; readonly note: unknown }
  | { readonly type: 'metrics'; readonly call: number; readonly text: string }

/** What the primary says to a worker. */
export type FromPrimary =
  /** The first message. */
  | {
      readonly type: 'begin'
      readonly adminUrl: string
      /** The configuration that the primary started with: a reload does not change what was opened by it. */
      readonly startedText: string
      /** The one whose plugins run now. */
      readonly text: string
      /** Where the primary can settle; on others nothing may be offered. */
      readonly networks: readonly NetworkId[]
    }
  | { readonly type: 'networks'; readonly networks: readonly NetworkId[] }
  /** The admin API changed a link or a store; the worker would read it from the store within half a second. */
  | { readonly type: 'changed'; readonly change: Change }
  | { readonly type: 'store'; readonly call: number; readonly attempt: SettlementAttempt }
  | { readonly type: 'settled'; readonly call: number; readonly outcome: SettleOutcome }
  | { readonly type: 'broken'; readonly call: number; readonly message: string }
  | { readonly type: 'read-metrics'; readonly call: number }
  | { readonly type: 'reload'; readonly text: string }
  | { readonly type: 'stop' }
