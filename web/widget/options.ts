/** What a shop's `onComplete` is called with: these fields and no others. */
export interface Completed {
  readonly sessionId: string
  readonly purchaseId: string
  /** Hash (Base) or signature (Solana) of the transfer. */
  readonly txHash: string
  readonly chain: 'base' | 'solana'
  /** Decimal, in USDC. */
  readonly amount: string
  readonly clientReferenceId: string | null
}

/** What a shop's page gives to `open`. */
export interface WidgetOptions {
  /** From the creation of the session, or a promise of it: the popup opens inside the click, before it is known. */
  readonly checkoutUrl: string | PromiseLike<string>
  /** Default: `popup`, and `redirect` where the browser blocks it. */
  readonly mode?: 'popup' | 'redirect'
  /** At most once. For the page alone: that money has come is said by the webhook and by the session's status. */
  readonly onComplete?: (completed: Completed) => void
  /** At most once: the buyer canceled. */
  readonly onCancel?: () => void
  /** Once, after the others: the popup is closed, by whomever. Not called where the page itself goes to the checkout. */
  readonly onClose?: () => void
}

/** What the checkout posts to the page that opened it. */
export type CheckoutMessage =
  | { readonly type: 'tollgate:ready' | 'tollgate:cancel'; readonly sessionId: string }
  | { readonly type: 'tollgate:complete'; readonly sessionId: string; readonly completed: Completed }
