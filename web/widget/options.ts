/** Argument of a shop's `onComplete`. It has these fields and no others. */
export interface Completed {
  readonly sessionId: string
  readonly purchaseId: string
  /** Hash (Base) or signature (Solana) of the transfer's transaction. */
  readonly txHash: string
  readonly chain: 'base' | 'solana'
  /** Decimal string, in USDC. */
  readonly amount: string
  readonly clientReferenceId: string | null
}

/** Options that a shop's page passes to `open`. */
export interface WidgetOptions {
  /**
   * URL from the creation of the payment session, or a promise of it. A promise is allowed because the popup must open inside
   * the click, possibly before the URL is known.
   */
  readonly checkoutUrl: string | PromiseLike<string>
  /** Default: `popup`, or `redirect` if the browser blocks the popup. */
  readonly mode?: 'popup' | 'redirect'
  /** Called at most once. It is only for the page. The webhook or the payment session's status is the proof of payment. */
  readonly onComplete?: (completed: Completed) => void
  /** Called at most once, when the buyer cancels. */
  readonly onCancel?: () => void
  /** Called once, after the other callbacks, when the buyer or the page has closed the popup. Not called with `redirect`. */
  readonly onClose?: () => void
}

/** Message that the checkout posts to the page that opened it. */
export type CheckoutMessage =
  | { readonly type: 'tollgate:ready' | 'tollgate:cancel'; readonly sessionId: string }
  | { readonly type: 'tollgate:complete'; readonly sessionId: string; readonly completed: Completed }
