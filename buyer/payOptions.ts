import type { ChannelId } from '../core/domain/channel.ts'
import type { ChainFamily, NetworkId } from '../core/domain/network.ts'
import type { BuyerScheme } from '../core/x402/types.ts'
import type { Buyer, SignedPayment } from './buyer.ts'
import type { ChannelRecord } from './channels/channelRecord.ts'
import type { PaymentSummary, PayReport } from './payReport.ts'

export const DEFAULT_MAX_USD = '1.00'
export const DEFAULT_TIMEOUT_MS = 30_000
export const DEFAULT_MAX_BODY_BYTES = 1_000_000
export const defaultRetryDelaysMs: readonly number[] = [1_000, 2_000, 4_000]

/** The wallets of a run, one per chain family. */
export type Wallets = Readonly<Partial<Record<ChainFamily, Buyer>>>

/** A price above the cap. The user has to confirm it. */
export interface PriceConfirmation {
  /** In scheme `upto`, the price is the most that can be charged. */
  readonly scheme: BuyerScheme
  /** Price and cap in USD, as decimal strings. */
  readonly usd: string
  readonly capUsd: string
  readonly amount: string
  readonly symbol: string
  readonly network: string
  readonly payTo: string
  /** The URL that is paid for, after redirects. */
  readonly url: string
  /** Whether the price is at most ten times the cap. */
  readonly isWithinTenfold: boolean
}

/** Options of {@link payForUrl}. */
export interface PayOptions {
  readonly url: string
  /** `GET` if absent. */
  readonly method?: string
  /** Names and values in turn. They are added to the call without and with payment. */
  readonly headers?: readonly string[]
  readonly body?: Uint8Array
  /**
   * The wallets that may pay, one per chain family, created for this run. It may be a function that creates them, which is called
   * only if no payment of an earlier run is open. The function may throw a {@link import('./buyer.ts').BuyerRefusal}.
   */
  readonly wallets: Wallets | (() => Promise<Wallets>)
  /** The only network on which to pay. If absent, the network of the first offer that a wallet can pay. */
  readonly network?: NetworkId
  /** True to sign in with a wallet, if the 402 offers that, and to pay only if the server does not accept the sign-in. */
  readonly signIn?: boolean
  /**
   * The most that may be unspent in a payment channel, in whole units of its token. If the channel of the offer does not cover the
   * call, it is filled up to this amount. If absent, only channels that cover the call are used.
   */
  readonly deposit?: string
  /** Prices above this cap need confirmation. USD as a decimal string, 1.00 if absent. */
  readonly maxUsd?: string
  /** Called if the price is above the cap. If absent, such a price is refused. */
  readonly confirm?: (question: PriceConfirmation, signal: AbortSignal | undefined) => Promise<boolean>
  /** Node that verifies the receipt. If absent, the network's public node. */
  readonly rpcUrl?: string
  /** Time limit of the whole run, in ms, 30 s if absent. The time in `confirm` and the wait for a vault's owner do not count. */
  readonly timeoutMs?: number
  /** Maximum wait for the chain after the response, in ms. If absent, the rest of `timeoutMs`. */
  readonly chainWaitMs?: number
  /** Maximum bytes of the response that are read. 1 MB if absent. */
  readonly maxBodyBytes?: number
  /** True if a payment may be sent over plain HTTP to a host other than this machine. */
  readonly allowInsecureHttp?: boolean
  /** Storage of payments with an unknown outcome. */
  readonly payments: SavedPayments
  /** True to make a new payment even if a payment for the same method, URL and body is open or in progress. */
  readonly again?: boolean
  /** Delay before each repetition of the payment, in ms. 1 s, 2 s and 4 s if absent. */
  readonly retryDelaysMs?: readonly number[]
  /**
   * Called for the outcome `paid`, before the payment is deleted. It stores the report with the response, because until then only
   * the payment can get the response again. If it throws, the payment stays.
   */
  readonly deliver?: (report: PayReport) => Promise<void>
  /** Ends the run. A payment that was sent stays stored for `--resume`. */
  readonly signal?: AbortSignal
  /** Called for every step with a sentence, which may quote the seller. */
  readonly onStep?: (text: string) => void
}

/** A signed payment and its call. A later run needs nothing else. It contains no key. */
export interface SavedPayment {
  readonly tollgatePayment: 1
  readonly createdAt: string
  readonly url: string
  readonly method: string
  /** The user's own headers, then the payment's Idempotency-Key. Names and values in turn. */
  readonly headers: readonly string[]
  /** Base64. Null if there is no body. */
  readonly body: string | null
  /** Value of `PAYMENT-SIGNATURE`, which later runs send unchanged. */
  readonly paymentHeader: string
  readonly payment: SignedPayment
  readonly summary: PaymentSummary
}

/** The fields that make two runs the same purchase. Options that only affect how it is paid are left out. */
export interface Command {
  readonly url: URL
  readonly method: string
  readonly body: Uint8Array | undefined
}

/** Exclusive use of a command by one run. */
export interface CommandLock {
  release(): void
  /** False if another run has taken over, because this run was suspended and appeared dead. */
  isOurs(): boolean
}

/** Storage for payments with an unknown outcome, so that a crash loses no payment and no payment is made twice. */
export interface SavedPayments {
  /** An id of the command, which does not reveal the command's content. */
  idOf(command: Command): string
  /** Locks a command for this run. @returns undefined while another run has the lock @throws errors of the storage */
  lock(commandId: string): Promise<CommandLock | undefined>
  /** The payments of a command, newest first. @throws {UsageError} if they cannot be listed */
  find(commandId: string): Promise<string[]>
  /**
   * Stores a payment durably and completely before it is sent. The stored payment is as valuable as the money, and may contain the
   * user's headers.
   *
   * @returns its name, by which a person can resume it
   */
  save(commandId: string, payment: SavedPayment): Promise<string>
  /** @throws {UsageError} if it does not exist, is damaged, or other users of the machine can read it */
  load(name: string): Promise<SavedPayment>
  remove(name: string): Promise<void>
  /**
   * The Idempotency-Key for an order to an external signer. If a run was killed, the next run gets the same key, so that the signer
   * returns what it has already signed and does not ask a person twice.
   *
   * @param order a different order gets a different key
   */
  keepOrderKey(commandId: string, order: unknown): Promise<string>
  /** What this buyer knows of a channel. @throws {UsageError} if the record cannot be read */
  findChannel(id: ChannelId): Promise<ChannelRecord | undefined>
  /** All channels that this buyer knows. @throws {UsageError} if a record cannot be read */
  listChannels(): Promise<ChannelRecord[]>
  /** Stores a channel durably and completely. */
  saveChannel(record: ChannelRecord): Promise<void>
  /** Deletes the key of a finished order, whose payment is stored or will never exist. */
  dropOrderKey(commandId: string): Promise<void>
}
