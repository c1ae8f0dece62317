import type { Asset } from '../core/domain/asset.ts'
import type { Payout, ServedLink } from '../core/domain/link.ts'
import type { NetworkId } from '../core/domain/network.ts'
import type { LinkProgram, ProgramEntry } from '../core/kernel/linkProgram.ts'
import type { Transfers } from '../core/payments/bookTransfer.ts'
import type { Payments } from '../core/payments/payments.ts'
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
import type { Sealer } from '../core/ports/sealer.ts'
import type { Books } from '../core/ports/store/books.ts'
import type { BrowserSessions } from '../core/ports/store/browserSessions.ts'
import type { Change, Changes } from '../core/ports/store/changes.ts'
import type { Discovery } from '../core/ports/store/discovery.ts'
import type { Fees } from '../core/ports/store/fees.ts'
import type { Figures } from '../core/ports/store/figures.ts'
import type { HealthChecks } from '../core/ports/store/healthChecks.ts'
import type { LeaseHolder } from '../core/ports/store/leases.ts'
import type { Links } from '../core/ports/store/links.ts'
import type { Oversight } from '../core/ports/store/oversight.ts'
import type { Pictures } from '../core/ports/store/pictures.ts'
import type { Purchases } from '../core/ports/store/purchases.ts'
import type { Reviews } from '../core/ports/store/reviews.ts'
import type { Sessions } from '../core/ports/store/sessions.ts'
import type { ApiKeys, SignInNonces, Stores } from '../core/ports/store/stores.ts'
import type { Webhooks } from '../core/ports/store/webhooks.ts'
import type { Offer, Priced } from '../core/x402/offers.ts'
import type { PaymentRequirements } from '../core/x402/types.ts'
import { createKeyRing, type KeyRing } from './auth/keyRing.ts'
import { createSignedInBrowsers, type SignedInBrowsers } from './auth/signedInBrowsers.ts'
import { createNameCheck } from './stores/username.ts'

/** Who settles on a network, and how it stands; one for each key. */
export interface SettlingReport {
  readonly network: NetworkId
  /** As in the attempts that it makes: `evm:eip155:84532:0xabc…`, `svm:…`, or a facilitator's URL. */
  readonly settler: string
  /** Null where somebody else's facilitator settles. */
  readonly key: Look<SettlingKey> | null
  /** Stored attempts of which nobody knows yet what became of them. */
  readonly openAttempts: number
  /** Of the whole network, in the smallest unit of its coin, today and in the last seven days (UTC). */
  readonly gas: { readonly today: bigint; readonly week: bigint }
  /** Who may sign, where that is one process at a time; `any` where it is not. */
  readonly lease: LeaseHolder | 'nobody' | 'any'
}

/** What was found, and what keeps it from being found now. */
export interface Look<T> {
  /** As it was last found, and when; undefined while it never was. */
  readonly value: T | undefined
  readonly atMs: number | undefined
  /** In words; undefined while all is well. */
  readonly fault: string | undefined
}

/** What the operator's page stands on. */
export interface OperatorDeps {
  /** What the operator signs in with; at least 32 characters. */
  readonly token: string
  readonly books: Pick<Books, 'list' | 'parked'>
  readonly oversight: Oversight
  /** What keeps the service from working, as {@link AdminApiDeps.ready} has it; answers soon, whichever node is away. */
  problems(): Promise<readonly string[]>
  /** How each network that the configuration names does. Answers soon, and so does what follows. */
  networks(): Promise<readonly { network: string; isOpen: boolean; problems: readonly string[] }[]>
  /** The effective configuration without its secrets. */
  readonly config: object
  /** Who settles on each network that is open. */
  settling(): Promise<readonly SettlingReport[]>
  /** What became of the calls of each process, asked now. */
  callCounts(): Promise<readonly ProcessCalls[]>
  /** What runs for a link, and by which entries of the configuration. @throws `NOT_READY` while the gateway starts */
  programOf(link: ServedLink): LinkProgram & { readonly entries: readonly ProgramEntry[] }
}

/** Everything the admin API stands on. It reads no file, no environment and no clock of its own. */
export interface AdminApiDeps {
  readonly stores: Stores
  readonly pictures: Pictures
  readonly keys: ApiKeys
  readonly nonces: SignInNonces
  readonly browserSessions: BrowserSessions
  readonly links: Links
  readonly purchases: Purchases
  readonly fees: Fees
  readonly figures: Figures
  readonly healthChecks: HealthChecks
  readonly reviews: Reviews
  readonly discovery: Discovery
  readonly webhooks: Webhooks
  readonly sessions: Sessions
  readonly payments: Payments
  readonly refundProofs: RefundProofs
  /** Books what pays a session without x402. */
  readonly transfers: Transfers
  readonly transferProofs: TransferProofs
  readonly payers: Payers
  readonly walletProofs: WalletProofs
  readonly egress: Egress
  readonly sealer: Sealer
  readonly counters: Counters
  readonly changes: Changes
  /** Calls links through their own programs, for tools. */
  readonly linkCalls: LinkCalls
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Pick<Metrics, 'source'>
  /** Base URL that everybody sees, with or without a trailing slash; addresses in answers come from it, never from a request. */
  readonly publicUrl: string
  /** Shown on pages and in the OpenAPI document. */
  readonly serviceName: string
  /** The operator's wallets, where stores pay their fees; null where none is named. */
  readonly feesPayTo: Payout
  /** What links can be paid in; their networks decide which payout wallets a paid link needs. */
  readonly assets: readonly Asset[]
  /**
   * What keeps wallets from being paid, in words for their seller: a Solana wallet without an account of the token, or a
   * price that is too low for a network.
   */
  payoutFaults(payout: Payout, price?: string): Promise<string[]>
  /** The ways to pay a price, as the 402 of a link offers them; none for a free one. */
  termsOf(link: Pick<ServedLink, 'price' | 'payout'>): readonly PaymentRequirements[]
  /** The ways to pay a price, with who settles each; the closed ones stand behind the open ones. */
  offersOf(sold: Priced): readonly Offer[]
  /**
   * What keeps the service from working, in words for the operator; empty when all is well.
   * @throws `NOT_READY` once this process was told to stop, which its load balancer may read too
   */
  ready(): Promise<readonly string[]>
  /** Left out where nobody signs in as the operator. */
  readonly operator?: OperatorDeps
  readonly options?: AdminApiOptions
}

export interface AdminApiOptions {
  /**
   * Hops whose `X-Forwarded-For` is believed: addresses, ranges or `loopback`. Default: `loopback`, where the gateway is.
   * Never `true` on a public listener: everybody could then choose the address that is counted.
   */
  readonly trustProxy?: boolean | string | string[]
  readonly limits?: Partial<AdminLimits>
  /** Longest a health check may take, in ms. Default: 5,000, so that saving a link stays below 10 s. */
  readonly probeTimeoutMs?: number
  /** Active keys of one store. Default: 5 (marketplace interface, section 8). */
  readonly maxActiveKeys?: number
  /** Words and brands that no seller may take for a username, beside the service's own addresses. Default: none. */
  readonly reservedUsernames?: readonly string[]
  /** Renames of one store within 24 hours. Default: 2. */
  readonly maxRenamesPerDay?: number
  /** Whether `Strict-Transport-Security` speaks for the subdomains of the public address too. Default: false. */
  readonly hstsIncludeSubDomains?: boolean
  /** Active links of one store. Default: 1,000. */
  readonly maxLinksPerStore?: number
  /** Open payment sessions of one store. Default: 10,000. */
  readonly maxOpenSessionsPerStore?: number
  /**
   * Who may read `/metrics` and the reasons in `/readyz`: `direct` means requests that came without `X-Forwarded-For`,
   * that is not through the gateway. Default: `direct`.
   */
  readonly operatorAccess?: 'direct' | 'anyone'
}

/** Requests per key, or per client address where there is none (marketplace interface, section 8). */
export interface AdminLimits {
  readonly keyPerMinute: number
  readonly keyPerHour: number
  /** Of all signed-in browsers of one store. */
  readonly dashboardPerMinute: number
  /** Keys that one store makes: each brings limits of its own. */
  readonly newKeysPerHour: number
  readonly noncePerMinute: number
  /** Signed texts; one that is sent again within five minutes, as clients do that heard no answer, counts once. */
  readonly signupPerHour: number
  readonly storePerMinute: number
  readonly discoverPerMinute: number
  readonly reviewsPerHour: number
  /** Of one payment session, by its client secret. */
  readonly sessionPollsPerMinute: number
  /** Messages to `/mcp`; what their tools do has its own limits besides. */
  readonly mcpPerMinute: number
  /** Payments of sessions that one client sends. */
  readonly paymentAttemptsPerMinute: number
  /** Requests with a key that is not one, before the answer turns from 401 to 429. */
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

/** The dependencies with every option settled; what routes are given. */
export interface Api extends Omit<AdminApiDeps, 'options' | 'changes'> {
  /** Tells caches what changed. Never throws: what was saved is saved. */
  announce(change: Change): void
  /** Hears of changes of links and stores, by whichever process. @returns a function that ends it */
  onChange(listener: (change: Change) => void): () => void
  readonly keyRing: KeyRing
  /** Who is signed in to a store's dashboard. */
  readonly sellers: SignedInBrowsers
  /** Who is signed in as the operator. */
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
        deps.log.error({ err, change }, 'a cache could not be told of a change')
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
