import type { NetworkId } from '../../../core/domain/network.ts'
import type { ProcessCalls } from '../../../core/ports/callCounts.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import type { SettlementRequest, SettlementResponse } from '../settling/settlementServer.ts'

/** Messages from a worker to the primary. `call` is the same number in a request and its responses. */
export type FromWorker =
  | SettlementRequest
  /** The worker is now listening for messages. It did not receive any message that was sent before. */
  | { readonly type: 'ready' }
  | { readonly type: 'listening'; readonly gatewayUrl: string }
  /** A note for a job of the primary, see `JobChannel`. */
  | { readonly type: 'note'; readonly topic: string; readonly note: unknown }
  | { readonly type: 'metrics'; readonly call: number; readonly text: string }
  | { readonly type: 'counts'; readonly call: number; readonly calls: ProcessCalls['calls'] }

/** Messages from the primary to a worker. */
export type FromPrimary =
  | SettlementResponse
  /** The first message that a worker receives. */
  | {
      readonly type: 'begin'
      /** URL to which the worker forwards requests that are not for a link. */
      readonly adminUrl: string
      /** URL of the primary's listener, which reports whether this installation is alive and ready. */
      readonly ownUrl: string
      /** The configuration with which the primary started. A reload does not change what was opened with it. */
      readonly startedText: string
      /** The configuration whose plugins run now. */
      readonly text: string
      /** The networks on which the primary can settle. The worker must not offer any other network. */
      readonly networks: readonly NetworkId[]
    }
  | { readonly type: 'networks'; readonly networks: readonly NetworkId[] }
  /**
   * The admin API changed a link or a store. Without this message, the worker would read the change from the database up to
   * half a second later.
   */
  | { readonly type: 'changed'; readonly change: Change }
  | { readonly type: 'read-metrics' | 'read-counts'; readonly call: number }
  | { readonly type: 'reload'; readonly text: string }
  | { readonly type: 'stop' }
