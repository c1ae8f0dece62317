import type { StoreId } from '../../domain/link.ts'
import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type {
  OpenAttempt,
  PaymentIdentity,
  PaymentKey,
  PaymentRecord,
  SettlementAttempt,
} from '../../domain/payment.ts'
import type { PaymentPayload, PaymentRequirements, Scheme } from '../../x402/types.ts'

/** A refusal with its x402 reason, such as `invalid_exact_evm_payload_signature`, and a message for people. */
export interface Refusal {
  readonly ok: false
  readonly reason: string
  readonly message: string
  /**
   * True if the gateway or the chain is the cause, such as an RPC node that is down. The response is then a 503, and the buyer may
   * send the payment again.
   */
  readonly transient?: boolean
  /**
   * True if the payload does not have the scheme's form, or its transaction cannot be decoded. The response is then a 400. A
   * readable payment that is refused gets a 402.
   */
  readonly isUnread?: true
  /** Fields of the response besides the error, such as the call that the payer has to make first. */
  readonly extra?: Readonly<Record<string, unknown>>
  /** True if only the payer has caused this transient refusal. It then counts against the caller, like a failed payment. */
  readonly isPayersDoing?: true
  /**
   * Identifies the payment. `check` sets it if network, asset and signature are valid, and only the time is over, or amount or
   * recipient differ from the terms. Such a payment cannot be settled on these terms. It may have bought this call earlier, for
   * example before the seller changed the price or wallet.
   */
  readonly identity?: PaymentIdentity
}

export type Checked = { readonly ok: true; readonly identity: PaymentIdentity } | Refusal

/** The sale for which a payment is verified. */
export interface VerifyContext {
  /** The seller's store. The gas cost of the settlement counts for this store. */
  readonly storeId: StoreId
}

/**
 * A verified payment's slot among the payments in flight. The slot counts for its payer and its store, in number and in amount,
 * until it is released or the settlement has ended.
 */
export interface Hold {
  /**
   * Releases the slot because nothing will be settled. Does nothing at a second call, or after `settle` has taken over the hold.
   */
  release(): void
}

export type Verified = { readonly ok: true; readonly hold: Hold } | Refusal

/** A payment whose outcome recovery looks up. */
export type TracedRecord = PaymentRecord & {
  /**
   * The signed attempt, if it must not be sent now and allows no conclusion. `attempt` is then null. The attempt may have been sent
   * anyway, and its gas cost counts for the settler.
   */
  readonly withheld?: SettlementAttempt
}

/** How a settlement ended. */
export type SettleOutcome =
  /** The transfer is on chain. Its receipt and event (or token balances) were read. */
  | Settled
  /**
   * Nothing was broadcast, and nothing from this gateway can land. If the settler got an attempt that must not be sent, this means
   * that another transaction has used the attempt's nonce.
   */
  | {
      readonly status: 'rejected'
      readonly reason: string
      readonly message: string
      readonly transient?: boolean
    }
  /**
   * The transaction was sent, but its outcome is not known yet. A transaction that was mined and reverted has this status too, with
   * its own reason, because any sender may submit the authorization again while it is valid.
   */
  | {
      readonly status: 'pending'
      readonly transaction: string
      readonly reason: string
      readonly message?: string
      /** When to check next, in ms from now. Set only if the settler has a better estimate than growing pauses. */
      readonly recheckMs?: number
      /** True if the chain has no trace of the payment, and the payment can still land. */
      readonly isUnused?: true
    }
  /** The payment can never land. It has expired unused by the chain's clock, or its nonce was used for another transaction. */
  | {
      readonly status: 'failed_final'
      readonly reason: string
      readonly message: string
      readonly transaction: string
    }

/** A transfer that is on chain. One transaction may settle several payments, each with its own event. */
export interface Settled {
  readonly status: 'settled'
  /** Null if the scheme settles payments later or several together. */
  readonly transaction: string | null
  /**
   * Which event of the transaction has settled the payment. On EVM it is the log index of AuthorizationUsed in decimal, on Solana
   * `0`. It is `nonce:<nonce>` if only a facilitator's response reported the transfer.
   */
  readonly event: string | null
  /** Number of the block (EVM) or slot (Solana) in which the transfer was seen. Null if that was not checked. */
  readonly block: number | null
  /** The charged amount, at most the authorized amount. */
  readonly chargedAtomic: AtomicAmount
}

/** A call of a contract that is no payment, such as the claim of a payment channel. */
export interface ContractCall {
  readonly to: string
  /** 0x and hex. */
  readonly data: string
}

/** How a transaction that is no payment ended. */
export type TransactOutcome =
  /** Mined with success. */
  | { readonly status: 'done'; readonly transaction: string }
  /** Nothing was sent. `isRevert` is true if the simulation showed that the contract refuses the call. */
  | { readonly status: 'refused'; readonly isRevert: boolean; readonly message: string }
  /** Mined and reverted. */
  | { readonly status: 'reverted'; readonly transaction: string }
  /** Sent, and not mined in time. It may still be mined. The hash is empty if another process may have sent it and has ended. */
  | { readonly status: 'pending'; readonly transaction: string }

/** Whether a payment's transfer is still on chain. */
export type OnChain = 'yes' | 'no' | 'unknown'

/** A key that pays for gas, and the current state of its account on chain. */
export interface SettlingKey {
  readonly address: string
  /** Balance in the smallest unit of the network's coin, which is wei or lamports. */
  readonly balance: bigint
  /** How many more settlements the balance can pay for, if each costs its current maximum. */
  readonly paymentsLeft: bigint
  /** Number of transactions that this process has signed and that it has not found on chain yet. */
  readonly inFlight: number
  /**
   * The key's next nonce. `mined` counts the transactions in blocks, and `pending` also those in the node's pool. Null if accounts
   * have no nonce.
   */
  readonly nonce: { readonly mined: number; readonly pending: number } | null
  /** Why this process skips the key or prefers other keys. Absent if there is no reason. */
  readonly trouble?: { readonly kind: KeyTrouble; readonly words: string }
}

/**
 * `shared`: another program signs with the key. `stuck`: a transaction of the key waits too long for a block. `low`: the key has
 * little gas left, and there are other keys.
 */
export type KeyTrouble = 'shared' | 'stuck' | 'low'

/** Nonces that a key has used by the ledger. */
export interface LedgerNonces {
  /** The ledger's nonces of the key, from the lowest one upwards. Only the newest payments were read. */
  readonly nonces: ReadonlySet<number>
  /**
   * True if the ledger has every payment of the key with its signed bytes. A lower nonce that is missing then belongs to no
   * payment.
   */
  readonly isComplete: boolean
}

/** One of the keys with which a settler pays for gas. */
export interface OwnKey {
  /** Id of the key in the attempts that it signs: `evm:eip155:84532:0xabc…`, `svm:…`. */
  readonly id: string
  /** Reads the current state of the key's account on chain. Rejects if no node responds. */
  readState(): Promise<SettlingKey>
  /**
   * Takes over what former lease holders have signed with the key, before this process signs with the key. Present if only one
   * process at a time may sign with it. Called again if another process has held the key meanwhile.
   *
   * @param open attempts that were signed with this key
   * @param mayGoOn whether this process still holds the key, checked before each verification or signature
   * @param ledgerNonces queries the ledger for the nonces of the key's attempts. If a node reports a nonce above these, the settler
   *   checks that nonce again before it counts. Rejects if the ledger cannot be read
   */
  start?(
    open: readonly OpenAttempt[],
    mayGoOn?: () => boolean,
    ledgerNonces?: () => Promise<LedgerNonces>,
  ): Promise<void>
  /**
   * Called from time to time by the lease holder of the key, to use up nonces of payments that were never sent. The chain accepts
   * no later nonce before that, and only the lease holder can do it, even if another process's recovery has concluded the payment
   * or sends it again after a reorganization. Reads `openAttempts` each time. Queries the chain only if an open payment has a nonce
   * that was used, or a transaction has been in flight for long. The settler keeps `openAttempts`, and never uses up a nonce for
   * which the database has a payment.
   */
  followUp?(openAttempts: () => Promise<readonly OpenAttempt[]>): Promise<void>
}

/** Returns the given payments that are no longer open in the database. A payment whose attempt is not stored yet counts as open. */
export type ConcludedOf = (keys: readonly PaymentKey[]) => Promise<readonly PaymentRecord[]>

/** Whether a wallet can be paid in an asset, by the settler's last read of the chain. The settler repeats that read by itself. */
export interface Payee {
  /** Why the wallet cannot be paid, as a message for its seller. Undefined if it can be paid, or if that is not known yet. */
  readonly fault: string | undefined
  /** Resolves after the first read of the chain, which takes at most half a second. Undefined after that. Never rejects. */
  readonly reading: Promise<unknown> | undefined
  /** Reads the chain again now, for at most half a second. Never rejects. Returns false if the chain did not respond. */
  refresh(): Promise<boolean>
}

/**
 * Checks and settles the payments of one network. An embedded settler has its own key and RPC node. A remote settler
 * calls an x402 facilitator by URL. The gateway uses both in the same way.
 */
export interface Settler {
  /**
   * Id of the settler in its attempts, such as `evm:eip155:84532:0xabc…`, `svm:…`, or the facilitator's URL. If the settler has
   * several keys, its own id depends only on the keys, and each attempt has the id of its key.
   */
  readonly id: string
  readonly network: NetworkId
  /** The x402 schemes that this settler settles. */
  readonly schemes: readonly Scheme[]
  /**
   * The `extra` fields of an offer on this network besides the asset's own, such as Solana's `feePayer`. Returns the same object
   * until other values are better. The settler still accepts payments that were signed for earlier values.
   */
  offerExtra(payTo: string, scheme: string): Readonly<Record<string, unknown>>
  /**
   * Lowest price of a link that this settler settles, in millionths of a dollar. The operator sets it, because the operator pays
   * for gas. A cheaper link is not offered on this network, and its seller gets a message. Absent for no minimum.
   */
  readonly minPriceAtomic?: AtomicAmount
  /**
   * Checks everything that does not depend on the chain's state, which is shape, terms, times and signature. The signature of an
   * EOA is checked synchronously in this process. The signature of a contract wallet takes one call to a node. Never throws for bad
   * input.
   */
  check(payment: PaymentPayload, terms: PaymentRequirements): Checked | Promise<Checked>
  /**
   * Checks whether the payment could be settled now. It checks that the nonce is unused, the balance covers all of the payer's
   * payments in flight, a simulation under a gas cap succeeds, a settling key has enough gas, and budgets are not used up. On
   * success, the payment has a slot until the caller releases it or `settle` has ended, so the caller must do one or the other.
   */
  verify(
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
    context: VerifyContext,
  ): Promise<Verified>
  /**
   * Settles the payment and takes over its hold. `terms.amount` is the amount to charge, which is more than 0. It is at most
   * `identity.amountAtomic`, and only a payment by `upto` is charged less. Before the signed bytes leave the process, `store` is called with them and
   * awaited. If `store` returns false or rejects, nothing is broadcast and the outcome is `rejected`. `store` is called again with
   * other bytes if the first bytes were never sent, or were mined without settling this payment. If the second `store` refuses, the
   * first bytes may still have been sent.
   */
  settle(
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
    store: (attempt: SettlementAttempt) => Promise<boolean>,
    hold?: Hold,
  ): Promise<SettleOutcome>
  /**
   * Simulates a call that is no payment, sends it from one of the settler's own accounts, and waits for its block. The transaction is
   * not stored, so the call must be safe to repeat: after a crash, the caller reads the chain and decides again. A repeat of
   * a call that waits for its block waits too, instead of sending it again. Present if the
   * settler has keys of its own on an EVM network. Never rejects.
   *
   * @param storeId the store for which the gas cost counts. Null if it counts for none
   */
  transact?(call: ContractCall, storeId: StoreId | null): Promise<TransactOutcome>
  /**
   * Finds the outcomes of stored attempts on chain by their hashes, nonces and events, regardless of the sender. Broadcasts the
   * same bytes again while they can still land, and never builds a new transaction before the old one can no longer land. One
   * request to the node covers many attempts, but their outcomes are independent. An attempt without bytes was never sent, and must
   * not be sent, because another transaction has used its nonce.
   *
   * @returns an outcome for each record, in order. Never rejects
   */
  recover(records: readonly TracedRecord[]): Promise<SettleOutcome[]>
  /**
   * Called once the caller has written an outcome of {@link Settler.recover} to its payment's row. If several processes find the
   * same outcome, only one writes it. The outcome counts for the payer and for the store's gas cost only after this call.
   *
   * @param outcome the same object that `recover` returned
   */
  booked?(record: Pick<PaymentRecord, 'key'>, outcome: SettleOutcome): void
  /**
   * Called if an outcome of {@link Settler.settle} was not written, because another process had taken over the payment's row. That
   * process then counts the gas cost.
   *
   * @param outcome the same object that `settle` returned
   */
  overtaken?(identity: Pick<PaymentIdentity, 'key'>, outcome: SettleOutcome): void
  /**
   * Called from time to time by every process that settles. Another process's recovery may have concluded a payment that is still
   * open in this process, but only the process that sent the payment can free its payer's slot. Reads nothing if no payment has
   * stayed open, and otherwise a limited number at a time.
   */
  forgetConcluded?(concludedOf: ConcludedOf): Promise<void>
  /**
   * Returns every payment that an attempt's bytes would settle. Present if one attempt can settle several payments. If the ledger
   * lacks one of these payments, the bytes were never sent, and must not be sent, because a buyer was told that nothing was
   * charged.
   */
  paymentsOf?(attempt: SettlementAttempt): readonly PaymentKey[]
  /**
   * Whether the transfers of settled payments are still at their recorded places on chain. This detects reorganizations. `no` comes
   * only from a node that is past the block in which the payment was seen. The caller checks a second time before it acts.
   * The settler may send the stored bytes of an absent transfer again.
   *
   * @returns a result for each record, in order. Never rejects
   */
  stillOnChain(records: readonly PaymentRecord[]): Promise<OnChain[]>
  /**
   * True if only one process at a time may settle, because this settler assigns the nonces of its keys, and two processes would
   * assign the same nonces.
   */
  readonly isExclusive?: true
  /** True if the settler sends a buyer's permit for Permit2 together with the payment, and pays its gas (`eip2612GasSponsoring`). */
  readonly sponsorsAllowance?: boolean
  /** The settler's own keys in the order of the configuration. If the settler is exclusive, each key has its own lease. */
  readonly keys?: readonly OwnKey[]
  /**
   * Takes over the attempts of former processes before the first new settlement, because their nonces are in use. Called again if
   * another process has settled meanwhile. If the settler has keys, this covers all of them.
   *
   * @param mayGoOn whether this process still holds the settler, checked before each verification or signature
   */
  start(open: readonly OpenAttempt[], mayGoOn?: () => boolean): Promise<void>
  /**
   * Present on networks on which a payee may be unable to receive an asset, such as a Solana wallet without a token account.
   * Returns the same object each time.
   */
  payee?(asset: string, payTo: string): Payee
  /**
   * The refusal that every payment gets now, if this process can tell without a request to the chain. Readiness reports it at once.
   */
  refusesAll?(): Refusal | undefined
  /** Problems as messages, for `tollgate doctor` and readiness. Empty if there are none. */
  diagnose(): Promise<string[]>
  close(): Promise<void>
}
