/** Where a payment stands while the wallet has it. */
export type SigningStep = 'connecting' | 'checking' | 'signing'

/** What the chain says of a Solana payer: its wallet can't be asked. */
export interface PayerState {
  /** Base58. */
  readonly recentBlockhash: string
  readonly balanceAtomic: bigint
}

export interface SignOptions {
  /** Of the gateway: whoever pays may have a clock that is wrong. */
  nowSeconds(): number
  askPayer(network: string, address: string, asset: string): Promise<PayerState>
  onStep(step: SigningStep): void
  /** Hears which account pays, before it signs. */
  onPayer?(address: string): void
}
