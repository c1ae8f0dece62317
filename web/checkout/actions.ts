import type { CheckoutProps, CheckoutState } from './state.ts'

/** What the buyer can do. On the server nobody does anything. */
export interface CheckoutActions {
  choose(offer: number): void
  /** Wallet, phone, terminal. */
  showWay(way: number): void
  pay(walletId: string): void
  /** Back to the wallets while one is asked: what it signs later is not sent. */
  leaveWallet(): void
  /** Back to the wallets after something stopped. */
  retry(): void
  cancel(): void
  closeWindow(): void
  /** What was bought is reviewed: it can't be again. */
  forgetReview(): void
}

const nothing = () => {}

export const noActions: CheckoutActions = {
  choose: nothing,
  showWay: nothing,
  pay: nothing,
  leaveWallet: nothing,
  retry: nothing,
  cancel: nothing,
  closeWindow: nothing,
  forgetReview: nothing,
}

/** What every part of the checkout is drawn from. */
export interface ViewProps extends CheckoutProps {
  readonly state: CheckoutState
  readonly actions: CheckoutActions
}
