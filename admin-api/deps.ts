import type { Asset } from '../core/domain/asset.ts'
import type { Payout, ServedLink } from '../core/domain/link.ts'
import type { Payments } from '../core/payments/payments.ts'
import type { Change, Changes } from '../core/ports/changes.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Counters } from '../core/ports/counters.ts'
import type { Discovery } from '../core/ports/discovery.ts'
import type { Egress } from '../core/ports/egress.ts'
import type { Links } from '../core/ports/links.ts'
import type { Log } from '../core/ports/log.ts'
import type { Metrics } from '../core/ports/metrics.ts'
import type { Purchases } from '../core/ports/purchases.ts'
import type { RefundProofs } from '../core/ports/refundProofs.ts'
import type { Reviews } from '../core/ports/reviews.ts'
import type { Sealer } from '../core/ports/sealer.ts'
import type { ApiKeys, SignInNonces, Stores } from '../core/ports/stores.ts'
import type { WalletProofs } from '../core/ports/wallets.ts'
import type { Webhooks } from '../core/ports/webhooks.ts'
import type { PaymentRequirements } from '../core/x402/types.ts'
import { createKeyRing, type KeyRing } from './auth/keyRing.ts'
import { createNameCheck } from './stores/username.ts'

/** Everything the admin API stands on. It reads no file, no environment and no clock of its own. */
export interface AdminApiDeps {
  readonly stores: Stores
  readonly keys: ApiKeys
  readonly nonces: SignInNonces
  readonly links: Links
  readonly purchases: Purchases
  readonly reviews: Reviews
  readonly discovery: Discovery
  readonly webhooks: Webhooks
  readonly payments: Pick<Payments, 'find' | 'refund'>
  readonly refundProofs: RefundProofs
  readonly walletProofs: WalletProofs
  readonly egress: Egress
  readonly sealer: Sealer
  readonly counters: Counters
  readonly changes: Changes
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Base URL that everybody sees, with or without a trailing slash; addresses in answers come from it, never from a request. */
  readonly publicUrl: string
  /** Shown on pages and in the OpenAPI document. */
  readonly serviceName: string
  /** What links can be paid in; their networks decide which payout wallets a paid link needs. */
  readonly assets: readonly Asset[]
  /**
   * What keeps wallets from being paid, in words for their seller: a Solana wallet without an account of the token, or a
   * price that is too low for a network.
   */
  payoutFaults(payout: Payout, price?: string): Promise<string[]>
  /** The ways to pay for a link, as its 402 offers them; none for a free one. */
  termsOf(link: ServedLink): readonly PaymentRequirements[]
  /** What keeps the service from working, in words for the operator; empty when all is well. */
  ready(): Promise<string[]>
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
  /** Active links of one store. Default: 1,000. */
  readonly maxLinksPerStore?: number
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
  /** Keys that one store makes: each brings limits of its own. */
  readonly newKeysPerHour: number
  readonly noncePerMinute: number
  /** Signed texts; one that is sent again within five minutes, as clients do that heard no answer, counts once. */
  readonly signupPerHour: number
  readonly storePerMinute: number
  readonly discoverPerMinute: number
  readonly reviewsPerHour: number
  /** Requests with a key that is not one, before the answer turns from 401 to 429. */
  readonly badKeyPerMinute: number
}

export const defaultLimits: AdminLimits = {
  keyPerMinute: 100,
  keyPerHour: 1_000,
  newKeysPerHour: 20,
  noncePerMinute: 10,
  signupPerHour: 5,
  storePerMinute: 60,
  discoverPerMinute: 60,
  reviewsPerHour: 10,
  badKeyPerMinute: 60,
}

/** The dependencies with every option settled; what routes are given. */
export interface Api extends Omit<AdminApiDeps, 'options' | 'changes'> {
  /** Tells caches what changed. Never throws: what was saved is saved. */
  announce(change: Change): void
  /** Hears of changes of links and stores, by whichever process. @returns a function that ends it */
  onChange(listener: (change: Change) => void): () => void
  readonly keyRing: KeyRing
  readonly limits: AdminLimits
  readonly probeTimeoutMs: number
  readonly maxActiveKeys: number
  isReservedUsername(username: string): boolean
  readonly maxRenamesPerDay: number
  readonly maxLinksPerStore: number
  readonly operatorAccess: 'direct' | 'anyone'
}

export function settleOptions(deps: AdminApiDeps): Api {
  const { options = {}, changes, ...ports } = deps
  return {
    ...ports,
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
    maxLinksPerStore: options.maxLinksPerStore ?? 1_000,
    operatorAccess: options.operatorAccess ?? 'direct',
  }
}
