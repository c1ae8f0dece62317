import type { NetworkId } from '../domain/network.ts'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../domain/payment.ts'
import type { PaymentPayload, PaymentRequirements } from '../x402/types.ts'

/** A refusal with its x402 reason, such as `invalid_exact_evm_payload_signature`, and words for a person. */
export interface Refusal {
  readonly ok: false
  readonly reason: string
  readonly message: string
  /** True when the cause is ours or the chain's, not the payment's (RPC away): 503, and the payment may be tried again. */
  readonly transient?: boolean
  /**
   * Set by `check` when the payment is of this network and asset and its signature holds, and only its time is over or its
   * amount or recipient are not those of the terms: whose payment it is. It can't be settled on these terms, but it may have
   * bought this call while it could: on other days, or before the seller changed price or wallet.
   */
  readonly identity?: PaymentIdentity
}

export type Checked = { readonly ok: true; readonly identity: PaymentIdentity } | Refusal
export type Verified = { readonly ok: true } | Refusal

/** How a settlement ended. */
export type SettleOutcome =
  /** The transfer is on chain: receipt and event (or token balances) were read. */
  | { readonly status: 'settled'; readonly transaction: string }
  /** Nothing was broadcast, nothing can land from us. */
  | {
      readonly status: 'rejected'
      readonly reason: string
      readonly message: string
      readonly transient?: boolean
    }
  /** Broadcast or sent; the outcome is not known yet. */
  | { readonly status: 'pending'; readonly transaction: string; readonly reason: string }
  /** Broadcast, and it is certain that it never lands: mined and reverted, or expired with the nonce unused. */
  | {
      readonly status: 'failed_final'
      readonly reason: string
      readonly message: string
      readonly transaction: string
    }

/** Whether one wallet can be paid in one asset, as far as the settler knows now; it keeps it current by itself. */
export interface Payee {
  /** Why it can't be paid, in words for its seller; undefined while it can be, and while nobody knows. */
  readonly fault: string | undefined
  /** The first look at the chain, at most half a second; undefined once it is over. Never rejects. */
  readonly looking: Promise<unknown> | undefined
  /** Looks again now, at most half a second. Never rejects; false when the chain did not answer. */
  look(): Promise<boolean>
}

/**
 * Pays out one kind of payment on one network: a scheme's checks, and the way to the chain. The embedded one has its own
 * key and RPC; the remote one speaks to an x402 facilitator by URL. The gateway does not know which it has.
 */
export interface Settler {
  readonly network: NetworkId
  readonly scheme: 'exact'
  /** `extra` fields that an offer on this network needs beside the asset's own: Solana's `feePayer`. */
  readonly offerExtra: Readonly<Record<string, unknown>>
  /**
   * Checks everything that can be known without the chain's state: shape, terms, times, signature. An EOA's signature is
   * checked in process and the answer is immediate; a contract wallet's needs one call. Never throws for bad input.
   */
  check(payment: PaymentPayload, terms: PaymentRequirements): Checked | Promise<Checked>
  /** Asks the chain: nonce unused, balance, simulation under a gas cap. */
  verify(payment: PaymentPayload, terms: PaymentRequirements, identity: PaymentIdentity): Promise<Verified>
  /**
   * Settles. `store` is awaited with the signed bytes BEFORE they leave the process; when it answers false or rejects,
   * nothing is broadcast and the outcome is `rejected`.
   */
  settle(
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
    store: (attempt: SettlementAttempt) => Promise<boolean>,
  ): Promise<SettleOutcome>
  /**
   * Finds out what became of a stored attempt: by its hash, by the nonce and its events on chain (whoever broadcast it),
   * and broadcasts the same bytes again while they could still land. Never builds a new transaction while the old could land.
   */
  recover(record: PaymentRecord): Promise<SettleOutcome>
  /** Whether the transfer of a settled payment is still on chain, that deep; for reorganisations. */
  stillOnChain(record: PaymentRecord): Promise<'yes' | 'no' | 'unknown'>
  /** Takes up attempts that a former process left, before the first new settlement (account nonces in use). */
  start(unresolved: readonly PaymentRecord[]): Promise<void>
  /** Where payees can be unable to receive an asset (Solana: without an account of the token). The same object each time. */
  payee?(asset: string, payTo: string): Payee
  /** For `tollgate doctor` and readiness: what is wrong, in words; empty when all is well. */
  diagnose(): Promise<string[]>
  close(): Promise<void>
}
