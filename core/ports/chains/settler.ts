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
import type { PaymentPayload, PaymentRequirements } from '../../x402/types.ts'

/** A refusal with its x402 reason, such as `invalid_exact_evm_payload_signature`, and words for a person. */
export interface Refusal {
  readonly ok: false
  readonly reason: string
  readonly message: string
  /** True when the cause is ours or the chain's, not the payment's (RPC away): 503, and the payment may be tried again. */
  readonly transient?: boolean
  /** The payload is none of the scheme's form, or its transaction can't be decoded: 400. What can be read and fails is 402. */
  readonly isUnread?: true
  /** Of a transient one that the payer alone has brought about: it counts against who presents it, as a failed payment does. */
  readonly isPayersDoing?: true
  /**
   * Set by `check` when the payment is of this network and asset and its signature holds, and only its time is over or its
   * amount or recipient are not those of the terms: whose payment it is. It can't be settled on these terms, but it may have
   * bought this call while it could: on other days, or before the seller changed price or wallet.
   */
  readonly identity?: PaymentIdentity
}

export type Checked = { readonly ok: true; readonly identity: PaymentIdentity } | Refusal

/** For whom a payment is verified. */
export interface VerifyContext {
  /** Whose sale it is: what it costs on chain counts for this store. */
  readonly storeId: StoreId
}

/**
 * A verified payment's place among those on their way: it counts, in number and sum, for its payer and its store, until
 * it is released or its settlement has ended.
 */
export interface Hold {
  /** Nothing will be settled by it. May be said again, and after `settle`, which then has it in hand: nothing happens. */
  release(): void
}

export type Verified = { readonly ok: true; readonly hold: Hold } | Refusal

/** A payment that is looked up. */
export type LookedUp = PaymentRecord & {
  /**
   * What was signed for it, where that must not be sent now, and nothing be concluded from it: `attempt` is null then. It may have been
   * sent all the same, and costs whoever settles what it costs.
   */
  readonly withheld?: SettlementAttempt
}

/** How a settlement ended. */
export type SettleOutcome =
  /** The transfer is on chain: receipt and event (or token balances) were read. */
  | Settled
  /** Nothing was broadcast, nothing can land from us. Of a stored attempt whose bytes may not be sent: something else has used its account number. */
  | {
      readonly status: 'rejected'
      readonly reason: string
      readonly message: string
      readonly transient?: boolean
    }
  /**
   * Broadcast or sent; the outcome is not known yet. Mined and reverted is this as well, with its own reason: while the
   * authorisation holds, anybody may send it once more.
   */
  | {
      readonly status: 'pending'
      readonly transaction: string
      readonly reason: string
      readonly message?: string
      /** When to look next, in ms, where that is known better than by looking rarer and rarer. */
      readonly lookAgainMs?: number
      /** The chain says that nothing of it is there, and it can land still. */
      readonly isUnused?: true
    }
  /** It is certain that it never lands: expired by the chain's clock and unused, or its nonce used for something else. */
  | {
      readonly status: 'failed_final'
      readonly reason: string
      readonly message: string
      readonly transaction: string
    }

/** A transfer that is on chain. One transaction may settle several payments: the pair with the event is unique. */
export interface Settled {
  readonly status: 'settled'
  /** Null where a scheme settles many payments later, or at once. */
  readonly transaction: string | null
  /**
   * Which of the transaction's events it is: on EVM the log index of AuthorizationUsed, decimal; on Solana `0`; where only
   * a facilitator's word is known, `nonce:<nonce>`.
   */
  readonly event: string | null
  /** Number of the block (EVM) or slot (Solana) in which it was seen; null where nobody looked. */
  readonly block: number | null
  /** At most what was authorised. */
  readonly chargedAtomic: AtomicAmount
}

/** What becomes of a payment's transfer in a reorganisation. */
export type OnChain = 'yes' | 'no' | 'unknown'

/** A key that pays for gas, as the chain has its account now. */
export interface SettlingKey {
  readonly address: string
  /** In the smallest unit of the network's coin: wei, lamports. */
  readonly balance: bigint
  /** How many more settlements it pays for, each at what it may have to cost now. */
  readonly paymentsLeft: bigint
  /** Signed here and not known to be on chain. */
  readonly inFlight: number
  /** The next account number by the newest block, and with what waits in the node's pool; null where accounts have none. */
  readonly nonce: { readonly mined: number; readonly pending: number } | null
  /** Why this process passes it over, or takes others first; absent while it does not. */
  readonly trouble?: { readonly kind: KeyTrouble; readonly words: string }
}

/**
 * `shared`: somebody else signs with it. `stuck`: a transaction of it waits for its block for too long. `low`: it has little gas left,
 * and there are others.
 */
export type KeyTrouble = 'shared' | 'stuck' | 'low'

/** Account numbers that a key has used by the books. */
export interface BookedNumbers {
  /** All that the books have from the lowest of them on, without those of payments that are not among the newest. */
  readonly numbers: ReadonlySet<number>
  /** The books have every payment and what was signed for it, so that a lower number that is not there is none of a payment of theirs. */
  readonly isWhole: boolean
}

/** One of the keys that a settler pays for gas with. */
export interface OwnKey {
  /** What stands in the attempts that it signs: `evm:eip155:84532:0xabc…`, `svm:…`. */
  readonly id: string
  /** Its account as the chain has it now. Rejects when no node says. */
  look(): Promise<SettlingKey>
  /**
   * Where one process at a time may sign with it: takes up what former processes have signed with it, before anything new is.
   * Again after another process has had it meanwhile.
   *
   * @param open attempts that it has signed
   * @param mayGoOn asked before anything is verified or signed: whether this is still the process that has it
   * @param bookedNumbers asks the books for account numbers that they have attempts for, as far as they still do: what a node says
   *   above them is asked for once more before it is believed. Rejects where they can't say
   */
  start?(
    open: readonly OpenAttempt[],
    mayGoOn?: () => boolean,
    bookedNumbers?: () => Promise<BookedNumbers>,
  ): Promise<void>
  /**
   * To be asked by the process that has it now and then, with a way to its attempts that are open in the store. Another
   * process's recovery can conclude a payment that stayed open here, and only whoever signs can use up the account number of one
   * that was never sent, before which the chain takes none of the later ones. Asks for nothing while nothing has been under way
   * for long. The way is kept: no number is used up that the store has a payment for.
   */
  followUp?(openAttempts: () => Promise<readonly OpenAttempt[]>): Promise<void>
}

/** Finds those of some payments that are open in the store no more. One whose attempt is not there yet is none of them. */
export type ConcludedOf = (keys: readonly PaymentKey[]) => Promise<readonly PaymentRecord[]>

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
  /**
   * What stands in the attempts that it makes: `evm:eip155:84532:0xabc…`, `svm:…`, or the facilitator's URL. One with several keys
   * has a name of its own, the same for the same keys, and each attempt has that of its key.
   */
  readonly id: string
  readonly network: NetworkId
  /** x402 scheme: `exact`. */
  readonly scheme: string
  /**
   * `extra` fields that an offer on this network needs beside the asset's own: Solana's `feePayer`. The same object until it is
   * better to offer others; what was signed for the former ones is taken as before.
   */
  offerExtra(payTo: string): Readonly<Record<string, unknown>>
  /**
   * Lowest price of a link that is settled here, in millionths of a dollar: whoever pays for gas sets it. A cheaper link is
   * not offered on this network, and its seller is told. Absent: none.
   */
  readonly minPriceAtomic?: AtomicAmount
  /**
   * Checks everything that can be known without the chain's state: shape, terms, times, signature. An EOA's signature is
   * checked in process and the answer is immediate; a contract wallet's needs one call. Never throws for bad input.
   */
  check(payment: PaymentPayload, terms: PaymentRequirements): Checked | Promise<Checked>
  /**
   * Asks whether it could be settled now: nonce unused, balance enough for all of the payer's payments on their way,
   * simulation under a gas cap, a settling key that can pay, budgets that are not used up. What it answers yes to is
   * held until `settle` has ended or the hold is released: whoever asks must do one of both.
   */
  verify(
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
    context: VerifyContext,
  ): Promise<Verified>
  /**
   * Settles. Takes over the hold that `verify` gave. `store` is awaited with the signed bytes BEFORE they leave the process; when it answers false or rejects,
   * nothing is broadcast and the outcome is `rejected`. It is called once more, with other bytes, where those of before were
   * never sent, or were mined and did nothing for this payment: then a no says nothing of what was sent before.
   */
  settle(
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
    store: (attempt: SettlementAttempt) => Promise<boolean>,
    hold?: Hold,
  ): Promise<SettleOutcome>
  /**
   * Finds out what became of stored attempts: by their hashes, by the nonces and their events on chain (whoever broadcast
   * them), and broadcasts the same bytes again while they could still land. Never builds a new transaction while the old
   * could land. One question to the node is for many of them, and the outcome of one never hangs on another's. An attempt without
   * bytes is one that was never sent and must not be: its account number is used by something else.
   *
   * @returns an outcome for each, in order; never rejects
   */
  recover(records: readonly LookedUp[]): Promise<SettleOutcome[]>
  /**
   * To be told once an outcome of {@link Settler.recover} stands in its payment's row by whoever had asked for it: only then it
   * counts, for its payer and in what its store may cost. Of several that find the same, one books it.
   *
   * @param outcome the very object
   */
  booked?(record: Pick<PaymentRecord, 'key'>, outcome: SettleOutcome): void
  /**
   * To be told when an outcome of {@link Settler.settle} was not written into its payment's row because somebody else had taken that up:
   * whoever did counts what it has cost.
   *
   * @param outcome the very object
   */
  overtaken?(identity: Pick<PaymentIdentity, 'key'>, outcome: SettleOutcome): void
  /**
   * To be asked now and then by every process that settles. Another one's recovery can conclude a payment that stayed open here, and
   * only whoever has sent it can give its payer's place back. Asks for nothing while none stayed open, and for a bounded number at once.
   */
  forgetConcluded?(concludedOf: ConcludedOf): Promise<void>
  /**
   * Every payment that an attempt's bytes would settle, where they can be several. Bytes that not all of these payments
   * stand in the books for were never sent, and must not be: somebody has heard that nothing was charged.
   */
  paymentsOf?(attempt: SettlementAttempt): readonly PaymentKey[]
  /**
   * Whether the transfers of settled payments are still on chain, where they are booked; for reorganisations. `no` is said
   * only by a node that is past the block where a payment was seen; who acts on it asks a second time.
   *
   * @returns an answer for each, in order; never rejects
   */
  stillOnChain(records: readonly PaymentRecord[]): Promise<OnChain[]>
  /**
   * True where one process at a time may settle: it numbers what it signs with its keys, and two that count take each
   * other's numbers.
   */
  readonly isExclusive?: true
  /** Where it settles with keys of its own, in the order of the configuration. An exclusive settler's are leased one by one. */
  readonly keys?: readonly OwnKey[]
  /**
   * Takes up attempts that a former process left, before the first new settlement (account nonces in use). Again after
   * another process has settled meanwhile. Of a settler with keys: of all of them.
   *
   * @param mayGoOn asked before anything is verified or signed: whether this is still the process that settles
   */
  start(open: readonly OpenAttempt[], mayGoOn?: () => boolean): Promise<void>
  /** Where payees can be unable to receive an asset (Solana: without an account of the token). The same object each time. */
  payee?(asset: string, payTo: string): Payee
  /** The refusal that every payment gets now, as far as this process knows without asking the chain: readiness says it at once. */
  refusesAll?(): Refusal | undefined
  /** For `tollgate doctor` and readiness: what is wrong, in words; empty when all is well. */
  diagnose(): Promise<string[]>
  close(): Promise<void>
}
