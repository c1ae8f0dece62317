/** The fields of a webhook that the views use. */
export interface WebhookResponse {
  readonly id: string
  readonly url: string
  readonly description: string
  readonly events: readonly string[]
  readonly linkId: string | null
  readonly isEnabled: boolean
  readonly disabledReason: 'gone' | 'failing' | 'seller' | null
  readonly failingSince: string | null
}

export interface DeliveryResponse {
  readonly id: string
  readonly webhookId: string
  readonly event: string
  readonly status: string
  readonly tries: number
  readonly nextTryAt: string | null
  readonly createdAt: string
}

export interface DeliveryPage {
  readonly deliveries: readonly DeliveryResponse[]
  readonly nextCursor: string | null
}

export interface WholeDelivery extends DeliveryResponse {
  readonly body: string
  readonly attempts: readonly {
    readonly at: string
    readonly status: number | null
    readonly latencyMs: number
    readonly error: string | null
    readonly response: string
  }[]
}

/** The events that a webhook can receive, with their words. */
export const kinds = [
  { kind: 'purchase.confirmed', words: 'Something was bought' },
  { kind: 'channel.charged', words: 'Calls were charged to a payment channel' },
  { kind: 'payment.confirmed', words: 'A payment session was paid' },
  { kind: 'payment.expired', words: 'A payment session expired' },
  { kind: 'refund.due', words: 'A refund is due' },
  { kind: 'refund.recorded', words: 'A refund was recorded' },
  { kind: 'link.suspended', words: 'A link was suspended' },
  { kind: 'review.created', words: 'A buyer wrote a review' },
  { kind: 'test', words: 'A test' },
] as const

export const kindWords = (kind: string): string => kinds.find((one) => one.kind === kind)?.words ?? kind

export interface SocialResponse {
  readonly type: string
  readonly url: string
  readonly isVisible: boolean
}

/** The fields of the seller's own profile that the views use. */
export interface ProfileResponse {
  readonly username: string
  readonly displayName: string
  readonly bio: string
  readonly avatarUrl: string
  readonly socials: readonly SocialResponse[]
  readonly developerModeEnabled: boolean
  readonly payout: {
    readonly base: string | null
    readonly solana: string | null
    readonly warnings?: readonly string[]
  }
}
/** The fields of a link that the views use. */

export interface LinkResponse {
  readonly id: string
  readonly linkType: 'api' | 'standard'
  readonly url: string
  readonly title: string
  readonly description: string
  readonly slug: string
  /** An object if the price depends on the request. */
  readonly price: string | object
  /** The lowest price. Only if the price depends on the request. */
  readonly priceMin?: string
  readonly priceMax?: string
  readonly isPaid: boolean
  readonly isPublic: boolean
  readonly isActive: boolean
  readonly isStealth: boolean
  readonly privateSlug: string | null
  readonly webhookUrl: string | null
  readonly methods: readonly string[]
  readonly tags: readonly string[]
  readonly responseMode: string
  readonly access: 'signed-in' | { readonly paidFor: string } | null
  readonly suspension: SuspensionResponse | null
  /** Statistics of the last thirty days. Absent if the gateway has none. */
  readonly stats?: LinkStatsResponse
  readonly createdAt: string
}

export interface LinkPage {
  readonly links: readonly LinkResponse[]
  readonly nextCursor: string | null
}

export interface LinkStatsResponse {
  readonly purchases: number
  readonly calls: number
  readonly buyers: number
  readonly revenue: string
}

export interface SuspensionResponse {
  readonly since: string
  readonly reason: string
  readonly cooldownUntil: string
  readonly permanent: boolean
}

export interface HealthResponse {
  readonly status: 'healthy' | 'unhealthy' | 'suspended' | 'unknown'
  readonly suspension: SuspensionResponse | null
  readonly hours: readonly HealthHourResponse[]
  readonly events: readonly HealthEventResponse[]
}

export interface HealthHourResponse {
  readonly hour: string
  readonly checks: number
  readonly failedChecks: number
  readonly latencyMs: number
  readonly maxLatencyMs: number
}

export interface HealthEventResponse {
  readonly at: string
  readonly kind: 'probe' | 'suspended' | 're-enabled'
  readonly ok: boolean
  readonly status: number | null
  readonly latencyMs: number | null
  readonly detail: string
}

export interface ProbeResponse {
  readonly ok: boolean
  readonly status: number | null
  readonly latencyMs: number
  readonly detail: string
  readonly checkedAt: string
}

export interface PurchaseResponse {
  readonly id: string
  readonly linkId: string | null
  readonly linkTitle: string | null
  readonly status: string
  readonly amount: string
  /** More than `amount` only if the call was charged by its use. */
  readonly authorizedAmount: string
  readonly fee: string
  readonly currency: string
  readonly price: string
  readonly network: string
  readonly buyerWallet: string
  readonly txHash: string
  readonly sessionId: string | null
  readonly explorerUrl: string | null
  readonly createdAt: string
}

export interface PurchasePage {
  readonly purchases: readonly PurchaseResponse[]
  readonly nextCursor: string | null
}
