import type { FastifyInstance } from 'fastify'
import type { Asset } from '../core/domain/asset.ts'
import type { Payout, ServedLink } from '../core/domain/link.ts'
import type { NetworkId } from '../core/domain/network.ts'
import type { Job } from '../core/jobs/job.ts'
import type { LinkPipeline, PipelineEntry } from '../core/kernel/linkPipeline.ts'
import type { Offer, Priced } from '../core/offers/offers.ts'
import type { Payments } from '../core/payments/payments.ts'
import type { PurchaseNotes } from '../core/payments/purchase.ts'
import type { Transfers } from '../core/payments/transfers.ts'
import type { ProcessCalls } from '../core/ports/callCounts.ts'
import type { Payers } from '../core/ports/chains/payers.ts'
import type { RefundProofs } from '../core/ports/chains/refundProofs.ts'
import type { SettlingKey } from '../core/ports/chains/settler.ts'
import type { TransferProofs } from '../core/ports/chains/transferProofs.ts'
import type { WalletProofs } from '../core/ports/chains/wallets.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Counters } from '../core/ports/counters.ts'
import type { Egress } from '../core/ports/egress.ts'
import type { LinkCalls } from '../core/ports/linkCalls.ts'
import type { Log } from '../core/ports/log.ts'
import type { Metrics } from '../core/ports/metrics.ts'
import type { ReceiptSigner } from '../core/ports/receiptSigner.ts'
import type { Sealer } from '../core/ports/sealer.ts'
import type { BrowserSessions } from '../core/ports/store/browserSessions.ts'
import type { Change, Changes } from '../core/ports/store/changes.ts'
import type { ChannelBooks } from '../core/ports/store/channelBooks.ts'
import type { Channels } from '../core/ports/store/channels.ts'
import type { Discovery } from '../core/ports/store/discovery.ts'
import type { Fees } from '../core/ports/store/fees.ts'
import type { HealthChecks } from '../core/ports/store/healthChecks.ts'
import type { Images } from '../core/ports/store/images.ts'
import type { LeaseHolder } from '../core/ports/store/leases.ts'
import type { Ledger } from '../core/ports/store/ledger.ts'
import type { Links } from '../core/ports/store/links.ts'
import type { OperatorView } from '../core/ports/store/operatorView.ts'
import type { Purchases } from '../core/ports/store/purchases.ts'
import type { Reviews } from '../core/ports/store/reviews.ts'
import type { Sessions } from '../core/ports/store/sessions.ts'
import type { Stats } from '../core/ports/store/stats.ts'
import type { ApiKeys, SignInNonces, Stores } from '../core/ports/store/stores.ts'
import type { Webhooks } from '../core/ports/store/webhooks.ts'
import type { PaymentRequirements } from '../core/x402/types.ts'
import { createSignedInBrowsers, type SignedInBrowsers } from './http/browserSessions.ts'
import { createKeyRing, type KeyRing } from './sellers/apiKey.ts'
import { createNameCheck } from './sellers/username.ts'

/** The state of one settlement key, or of a facilitator. A network has one report per key. */
export interface SettlingReport {
  readonly network: NetworkId
  /** The settler's name in its attempts. It is `evm:eip155:84532:0xabc…`, `svm:…`, or a facilitator's URL. */
  readonly settler: string
  /** Null if an external facilitator settles. */
  readonly key: LastReading<SettlingKey> | null
  /** Number of stored attempts whose outcome is not known yet. */
  readonly openAttempts: number
  /** Gas costs of the whole network, today and over the last seven days (UTC), in the smallest unit of the network's coin. */
  readonly gas: { readonly today: bigint; readonly week: bigint }
  /** The process that may sign, if only one may at a time. `any` if every process may sign. Otherwise no process may sign. */
  readonly lease: LeaseHolder | 'free' | 'any'
}

/** The last successful reading of a value, and the reason if the value cannot be read now. */
export interface LastReading<T> {
  /** The value of the last reading. Undefined if no reading has succeeded, and so is `atMs`. */
  readonly value: T | undefined
  readonly atMs: number | undefined
  /** A sentence for the operator. Undefined while readings succeed. */
  readonly fault: string | undefined
}

/** Dependencies of the operator's page. */
export interface OperatorDeps {
  /** The operator's sign-in token, at least 32 characters. */
  readonly token: string
  readonly ledger: Pick<Ledger, 'list' | 'parked'>
  readonly operatorView: OperatorView
  /**
   * The problems that keep the service from working, as in {@link AdminApiDeps.ready}. Responds promptly even while a node is down.
   */
  problems(): Promise<readonly string[]>
  /** The state of each network in the configuration. This function and those below respond promptly. */
  networks(): Promise<readonly { network: string; isOpen: boolean; problems: readonly string[] }[]>
  /** The effective configuration without its secrets. */
  readonly config: object
  /** The settlers of each open network. */
  settling(): Promise<readonly SettlingReport[]>
  /** The call counts of each process. Each call requests them again. */
  callCounts(): Promise<readonly ProcessCalls[]>
  /** The pipeline of a link, and the configuration entries that it comes from. @throws `NOT_READY` while the gateway starts */
  pipelineOf(link: ServedLink): LinkPipeline & { readonly entries: readonly PipelineEntry[] }
}

/** All dependencies of the admin API. The API itself reads no file, environment variable or clock. */
export interface AdminApiDeps {
  readonly stores: Stores
  readonly images: Images
  readonly keys: ApiKeys
  readonly nonces: SignInNonces
  readonly browserSessions: BrowserSessions
  readonly links: Links
  readonly purchases: Purchases
  readonly fees: Fees
  readonly channels: Pick<Channels, 'earnings'>
  readonly channelBooks: Pick<ChannelBooks, 'page' | 'debts' | 'payoutsDue'>
  readonly stats: Stats
  readonly healthChecks: HealthChecks
  readonly reviews: Reviews
  readonly discovery: Discovery
  readonly webhooks: Webhooks
  readonly sessions: Sessions
  readonly payments: Payments
  /** The ids that paid responses contain. */
  readonly notes: PurchaseNotes
  readonly refundProofs: RefundProofs
  /** Records transfers that pay a session without x402. */
  readonly transfers: Transfers
  readonly transferProofs: TransferProofs
  readonly payers: Payers
  readonly walletProofs: WalletProofs
  readonly egress: Egress
  readonly sealer: Sealer
  readonly receiptSigner: ReceiptSigner
  readonly counters: Counters
  readonly changes: Changes
  /** Runs calls of links through their own pipelines, for MCP tools. */
  readonly linkCalls: LinkCalls
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Pick<Metrics, 'source'>
  /** The public base URL, with or without a trailing slash. Responses build addresses from this URL and never from a request. */
  readonly publicUrl: string
  /** Shown on pages and in the OpenAPI document. */
  readonly serviceName: string
  /** The operator's wallets, to which stores pay their fees. Null if none is configured. */
  readonly feesPayTo: Payout
  /** The tokens that links accept. Their networks decide which payout wallets a paid link needs. */
  readonly assets: readonly Asset[]
  /**
   * Sentences for a seller about why their wallets cannot be paid. For example, a Solana wallet has no token account, or a price is
   * below the minimum of a network.
   */
  payoutFaults(payout: Payout, sold?: Pick<Priced, 'price' | 'pricing'>): Promise<string[]>
  /** The payment methods for a price, as the link's 402 offers them. Empty for a free link. */
  termsOf(link: Priced): readonly PaymentRequirements[]
  /** The payment methods for a price, each with its settler. Methods that are closed now come last. */
  offersOf(sold: Priced): readonly Offer[]
  /**
   * Sentences for the operator about problems that keep the service from working. Empty if everything works.
   * @throws `NOT_READY` while this process starts and after it begins to stop; load balancers may read this too
   */
  ready(): Promise<readonly string[]>
  /** Absent if no operator can sign in. */
  readonly operator?: OperatorDeps
  readonly options?: AdminApiOptions
}

interface AdminApiOptions {
  /**
   * Proxies whose `X-Forwarded-For` is trusted, as addresses, ranges or `loopback`. Default `loopback`, where the gateway runs.
   * Never use `true` on a public listener, because every client could then choose the address that its requests count against.
   */
  readonly trustProxy?: boolean | string | string[]
  readonly limits?: Partial<AdminLimits>
  /** Maximum duration of a health check, in ms. Default 5,000, because saving a link must take less than 10 s. */
  readonly probeTimeoutMs?: number
  /** Maximum number of active keys of one store. Default: 5 (marketplace interface, section 8). */
  readonly maxActiveKeys?: number
  /** Words and brands that sellers cannot use as usernames, in addition to the service's own addresses. Default: none. */
  readonly reservedUsernames?: readonly string[]
  /** Maximum number of renames of one store within 24 hours. Default: 2. */
  readonly maxRenamesPerDay?: number
  /** Whether `Strict-Transport-Security` also covers the subdomains of the public address. Default: false. */
  readonly hstsIncludeSubDomains?: boolean
  /** Maximum number of active links of one store. Default: 1,000. */
  readonly maxLinksPerStore?: number
  /** Maximum number of open payment sessions of one store. Default: 10,000. */
  readonly maxOpenSessionsPerStore?: number
  /**
   * Which requests may read `/metrics` and the reasons in `/readyz`. `direct` means requests without `X-Forwarded-For`, because
   * these did not come through the gateway. Default `direct`.
   */
  readonly operatorAccess?: 'direct' | 'anyone'
}

/**
 * Maximum number of requests per time and key (marketplace interface, section 8). Requests without a key count per client address.
 */
export interface AdminLimits {
  readonly keyPerMinute: number
  readonly keyPerHour: number
  /** Per store. All of the store's signed-in browsers share the limit. */
  readonly dashboardPerMinute: number
  /** Keys that a store may create. The limit is needed because each key has limits of its own. */
  readonly newKeysPerHour: number
  readonly noncePerMinute: number
  /** Signed texts per client. Clients send a text again after a timeout. Within five minutes, a repeated text counts once. */
  readonly signupPerHour: number
  readonly storePerMinute: number
  readonly discoverPerMinute: number
  readonly reviewsPerHour: number
  /** Per payment session, for requests with its client secret. */
  readonly sessionPollsPerMinute: number
  /** Messages to `/mcp`. The routes that tools call have further limits of their own. */
  readonly mcpPerMinute: number
  /** Payments for payment sessions, per client. */
  readonly paymentAttemptsPerMinute: number
  /** Requests with an invalid key. Further ones get 429 instead of 401. */
  readonly badKeyPerMinute: number
}

export const defaultLimits: AdminLimits = {
  keyPerMinute: 100,
  keyPerHour: 1_000,
  dashboardPerMinute: 300,
  newKeysPerHour: 20,
  noncePerMinute: 10,
  signupPerHour: 5,
  storePerMinute: 60,
  discoverPerMinute: 60,
  reviewsPerHour: 10,
  sessionPollsPerMinute: 60,
  mcpPerMinute: 240,
  paymentAttemptsPerMinute: 20,
  badKeyPerMinute: 60,
}

/** The dependencies with every option filled in. Routes get this object. */
export interface Api extends Omit<AdminApiDeps, 'options' | 'changes'> {
  /** Notifies caches of a change. Never throws, because the change is already saved. */
  announce(change: Change): void
  /** Subscribes to changes of links and stores, by this or another process. @returns a function that unsubscribes */
  onChange(listener: (change: Change) => void): () => void
  readonly keyRing: KeyRing
  /** Browser sessions of sellers. */
  readonly sellers: SignedInBrowsers
  /** Browser sessions of the operator. */
  readonly operators: SignedInBrowsers
  readonly limits: AdminLimits
  readonly probeTimeoutMs: number
  readonly maxActiveKeys: number
  isReservedUsername(username: string): boolean
  readonly maxRenamesPerDay: number
  readonly hstsIncludeSubDomains: boolean
  readonly maxLinksPerStore: number
  readonly maxOpenSessionsPerStore: number
  readonly operatorAccess: 'direct' | 'anyone'
}

export function settleOptions(deps: AdminApiDeps): Api {
  const { options = {}, changes, ...ports } = deps
  return {
    ...ports,
    sellers: createSignedInBrowsers(deps, 'tollgate_seller'),
    operators: createSignedInBrowsers(deps, 'tollgate_operator', deps.operator?.token),
    announce(change) {
      try {
        changes.publish(change)
      } catch (err) {
        deps.log.error({ err, change }, 'a cache was not notified of a change')
      }
    },
    onChange: (listener) => changes.subscribe(listener),
    keyRing: createKeyRing(deps),
    publicUrl: deps.publicUrl.replace(/\/+$/, ''),
    limits: { ...defaultLimits, ...options.limits },
    probeTimeoutMs: options.probeTimeoutMs ?? 5_000,
    maxActiveKeys: options.maxActiveKeys ?? 5,
    isReservedUsername: createNameCheck(options.reservedUsernames ?? [], deps.serviceName),
    maxRenamesPerDay: options.maxRenamesPerDay ?? 2,
    hstsIncludeSubDomains: options.hstsIncludeSubDomains ?? false,
    maxLinksPerStore: options.maxLinksPerStore ?? 1_000,
    maxOpenSessionsPerStore: options.maxOpenSessionsPerStore ?? 10_000,
    operatorAccess: options.operatorAccess ?? 'direct',
  }
}

type AddRoutes = (app: FastifyInstance, api: Api) => void | Promise<void>

/** Starts a background job of a feature once the API listens. */
export type StartJob = (api: Api) => Pick<Job, 'stop'>

/** One feature of the control plane. Its routes, rules and jobs are in a folder of their own. */
export interface Feature {
  /** Its heading in the API reference. */
  readonly name: string
  /** The text below the heading. Absent if the reference has no section for the feature. */
  readonly about?: string
  /** Public routes. */
  readonly publicRoutes?: readonly AddRoutes[]
  /** Routes that require an API key. `callerOf` returns the key's store. */
  readonly storeRoutes?: readonly AddRoutes[]
  readonly jobs?: readonly StartJob[]
}
