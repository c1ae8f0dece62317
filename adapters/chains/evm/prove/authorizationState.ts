import type { ExpectedTransfer } from '../../../../core/evm/transferProof.ts'
import type { Settled } from '../../../../core/ports/chains/settler.ts'

/** A transfer that is searched for. */
export interface Wanted {
  readonly expected: ExpectedTransfer
  /** When the payment was claimed, in ms since 1970. The search leaves out events long before that. */
  readonly sinceMs: number
}

/** The state of an authorization on chain, regardless of the account that sent it. */
export type AuthorizationState =
  | { readonly kind: 'unused' }
  /** The transfer is on chain. */
  | { readonly kind: 'paid'; readonly settled: Settled }
  /**
   * The nonce is used but the money did not go to the payee, because the authorization was cancelled or used for other terms.
   * `transaction` is empty if no event names it, as with Permit2.
   */
  | { readonly kind: 'spent'; readonly transaction: string; readonly block: number }
  /** Unknown for now, because the node did not respond, or because the nonce is used and no event of its use was found. */
  | { readonly kind: 'lost' }
