import type { SignedPayment } from './buyer.ts'
import type { PaymentSummary } from './payReport.ts'

/** A signed payment and the call that it is for; all that a later run needs, and no key. */
export interface KeptPayment {
  readonly tollgatePayment: 1
  readonly createdAt: string
  readonly url: string
  readonly method: string
  /** Flat list of name, value: the user's own headers, and the Idempotency-Key of the payment. */
  readonly headers: readonly string[]
  /** Base64; null for no body. */
  readonly body: string | null
  /** Value of `PAYMENT-SIGNATURE`, sent again as it is. */
  readonly paymentHeader: string
  readonly payment: SignedPayment
  readonly summary: PaymentSummary
}

/** What makes two runs the same purchase: the options of how to pay for it do not. */
export interface Command {
  readonly url: URL
  readonly method: string
  readonly body: Uint8Array | undefined
}

/** A command is one run's alone. */
export interface CommandLock {
  release(): void
  /** False after a standstill in which another run took this one for gone. */
  isOurs(): boolean
}

/** Where payments are kept while their outcome is open, so that a crash costs nothing and nobody pays twice. */
export interface KeptPayments {
  /** Names the payments of a command; says nothing of what is in it. */
  idOf(command: Command): string
  /** Takes one command for this run. @returns undefined while another run has it   @throws the store's own error */
  lock(commandId: string): Promise<CommandLock | undefined>
  /** The payments of a command, the newest first. @throws {UsageError} they can not be listed */
  find(commandId: string): Promise<string[]>
  /**
   * Keeps a payment, durably and whole, before it is sent. It is as good as the money and may hold the user's headers.
   *
   * @returns its name, by which a person can go on with it
   */
  save(commandId: string, payment: KeptPayment): Promise<string>
  /** @throws {UsageError} there is none of this name, it is damaged, or others may read it */
  load(name: string): Promise<KeptPayment>
  remove(name: string): Promise<void>
  /**
   * The Idempotency-Key under which somebody else was asked, or is to be asked, to sign: the one that a run which was killed
   * had used, so that what was signed then is given again and no person is asked twice.
   *
   * @param order what is ordered; another order gets another key
   */
  keepOrderKey(commandId: string, order: unknown): Promise<string>
  /** The order is over: its payment is kept, or there will be none. */
  dropOrderKey(commandId: string): Promise<void>
}
