/** What the API says of a webhook, as far as the views read it. */
export interface WebhookAnswer {
  readonly id: string
  readonly url: string
  readonly description: string
  readonly events: readonly string[]
  readonly linkId: string | null
  readonly isEnabled: boolean
  readonly disabledReason: 'gone' | 'failing' | 'seller' | null
  readonly failingSince: string | null
}

export interface DeliveryAnswer {
  readonly id: string
  readonly webhookId: string
  readonly event: string
  readonly status: string
  readonly tries: number
  readonly nextTryAt: string | null
  readonly createdAt: string
}

export interface DeliveryPage {
  readonly deliveries: readonly DeliveryAnswer[]
  readonly nextCursor: string | null
}

export interface WholeDelivery extends DeliveryAnswer {
  readonly body: string
  readonly attempts: readonly {
    readonly at: string
    readonly status: number | null
    readonly latencyMs: number
    readonly error: string | null
    readonly answer: string
  }[]
}

/** What a webhook may hear of, in words. */
export const kinds = [
  { kind: 'purchase.confirmed', words: 'Something was bought' },
  { kind: 'payment.confirmed', words: 'A payment session was paid' },
  { kind: 'payment.expired', words: 'A payment session expired' },
  { kind: 'refund.due', words: 'A refund is due' },
  { kind: 'refund.recorded', words: 'A refund was booked' },
  { kind: 'link.suspended', words: 'A link was suspended' },
  { kind: 'review.created', words: 'A buyer wrote a review' },
  { kind: 'test', words: 'A test' },
] as const

export const kindWords = (kind: string): string => kinds.find((one) => one.kind === kind)?.words ?? kind
