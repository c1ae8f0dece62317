import type { StoreId } from '../../../core/domain/link.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { PaymentIdentity, SettlementAttempt } from '../../../core/domain/payment.ts'
import type { ProcessCalls } from '../../../core/ports/callCounts.ts'
import type { Refusal, SettleOutcome } from '../../../core/ports/chains/settler.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'

/** What a worker says to the primary. `call` pairs a question with its answers; it is unique in its worker. */
export type FromWorker =
  /** It hears from here on; what was said before is lost. */
  | { readonly type: 'ready' }
  | { readonly type: 'listening'; readonly gatewayUrl: string }
  /** Whether it could be settled; a yes holds its place in the primary until it is settled or released. */
  | {
      readonly type: 'verify'
      readonly call: number
      readonly network: string
      readonly payment: PaymentPayload
      readonly terms: PaymentRequirements
      readonly identity: PaymentIdentity
      readonly storeId: StoreId
    }
  /** Nothing will be settled by it. @property held the call of the `verify` */
  | { readonly type: 'release'; readonly held: number }
  | {
      readonly type: 'settle'
      readonly call: number
      readonly network: string
      readonly payment: PaymentPayload
      readonly terms: PaymentRequirements
      readonly identity: PaymentIdentity
      /** The call of its `verify`. */
      readonly held?: number
      /**
       * Of one that is asked again: the turn of the last attempt that was to be stored for it. What was stored by then may be on its
       * way, whoever has forgotten it.
       */
      readonly turn?: number
    }
  /** Whether the attempt of that turn is on disk. Without a true, the primary broadcasts nothing. */
  | {
      readonly type: 'stored'
      readonly call: number
      readonly turn: number
      /** Of that attempt: one that has forgotten it may have begun with turn 1 again. */
      readonly transaction: string
      readonly ok: boolean
    }
  /** For a job of the primary: see `JobLine`. */
  | { readonly type: 'note'; readonly topic: string; readonly note: unknown }
  | { readonly type: 'metrics'; readonly call: number; readonly text: string }
  | { readonly type: 'counts'; readonly call: number; readonly calls: ProcessCalls['calls'] }

/** What the primary says to a worker. */
export type FromPrimary =
  /** The first message. */
  | {
      readonly type: 'begin'
      /** Where everything is handed to that is no link. */
      readonly adminUrl: string
      /** The primary's listener, which says whether this installation lives and can work. */
      readonly ownUrl: string
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
  | { readonly type: 'verified'; readonly call: number; readonly refusal: Refusal | null }
  /** The first attempt of a call has turn 1; one that takes its place has the next. */
  | {
      readonly type: 'store'
      readonly call: number
      readonly turn: number
      readonly attempt: SettlementAttempt
    }
  | { readonly type: 'settled'; readonly call: number; readonly outcome: SettleOutcome }
  | { readonly type: 'broken'; readonly call: number; readonly message: string }
  /** It had begun, and nobody here knows any more how far it came: nothing is begun anew. */
  | { readonly type: 'forgotten'; readonly call: number }
  | { readonly type: 'read-metrics' | 'read-counts'; readonly call: number }
  | { readonly type: 'reload'; readonly text: string }
  | { readonly type: 'stop' }
