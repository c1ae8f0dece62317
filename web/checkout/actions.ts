import type { CheckoutProps, CheckoutState } from './state.ts'

/** The buyer's actions. On the server each of them does nothing. */
export interface CheckoutActions {
  choose(offer: number): void
  /** Wallet (0), phone (1) or terminal (2). */
  selectMethod(selected: number): void
  pay(walletId: string): void
  /**
   * Returns to the list of wallets while a wallet asks for a signature. A signature that arrives later is not
   * sent.
   */
  leaveWallet(): void
  /** Returns to the list of wallets after a failure. */
  retry(): void
  cancel(): void
  closeWindow(): void
  /** Called when the purchase was reviewed, because it can be reviewed only once. */
  forgetReview(): void
}

const nothing = () => {}

export const noActions: CheckoutActions = {
  choose: nothing,
  selectMethod: nothing,
  pay: nothing,
  leaveWallet: nothing,
  retry: nothing,
  cancel: nothing,
  closeWindow: nothing,
  forgetReview: nothing,
}

/** Props of every part of the checkout. */
export interface ViewProps extends CheckoutProps {
  readonly state: CheckoutState
  readonly actions: CheckoutActions
}
