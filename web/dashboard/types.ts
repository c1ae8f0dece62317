/** What the API answers, as far as the views read it. */

export interface LinkAnswer {
  readonly id: string
  readonly linkType: 'api' | 'standard'
  readonly url: string
  readonly title: string
  readonly description: string
  readonly slug: string
  readonly price: string
  readonly isPaid: boolean
  readonly isPublic: boolean
  readonly isActive: boolean
  readonly isStealth: boolean
  readonly privateSlug: string | null
  readonly webhookUrl: string | null
  readonly methods: readonly string[]
  readonly tags: readonly string[]
  readonly responseMode: string
  readonly suspension: SuspensionAnswer | null
  /** Of thirty days, where the service has them. */
  readonly stats?: LinkStatsAnswer
  readonly createdAt: string
}

export interface LinkPage {
  readonly links: readonly LinkAnswer[]
  readonly nextCursor: string | null
}

export interface LinkStatsAnswer {
  readonly purchases: number
  readonly calls: number
  readonly buyers: number
  readonly revenue: string
}

export interface SuspensionAnswer {
  readonly since: string
  readonly reason: string
  readonly cooldownUntil: string
  readonly permanent: boolean
}

export interface HealthAnswer {
  readonly status: 'healthy' | 'unhealthy' | 'suspended' | 'unknown'
  readonly suspension: SuspensionAnswer | null
  readonly hours: readonly HealthHourAnswer[]
  readonly events: readonly HealthEventAnswer[]
}

export interface HealthHourAnswer {
  readonly hour: string
  readonly checks: number
  readonly failedChecks: number
  readonly latencyMs: number
  readonly maxLatencyMs: number
}

export interface HealthEventAnswer {
  readonly at: string
  readonly kind: 'probe' | 'suspended' | 're-enabled'
  readonly ok: boolean
  readonly status: number | null
  readonly latencyMs: number | null
  readonly detail: string
}

export interface ProbeAnswer {
  readonly ok: boolean
  readonly status: number | null
  readonly latencyMs: number
  readonly detail: string
  readonly checkedAt: string
}

export interface PurchaseAnswer {
  readonly id: string
  readonly linkId: string | null
  readonly linkTitle: string | null
  readonly status: string
  readonly amount: string
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
  readonly purchases: readonly PurchaseAnswer[]
  readonly nextCursor: string | null
}
