import type { Ledger } from '../../../core/ports/store/ledger.ts'
import type { Links } from '../../../core/ports/store/links.ts'
import type { Purchases } from '../../../core/ports/store/purchases.ts'
import type { Reviews } from '../../../core/ports/store/reviews.ts'
import type { Stores } from '../../../core/ports/store/stores.ts'
import type { NewEndpoint, Webhooks } from '../../../core/ports/store/webhooks.ts'
import {
  change,
  claimed,
  type LedgerUnderTest,
  saleOf,
  sampleClaim,
  samplePurchase,
  startMs,
} from '../samples.ts'

/** A store of which endpoints and the outbox are tested. */
export interface WebhooksUnderTest extends LedgerUnderTest {
  readonly ledger: Ledger
  readonly webhooks: Webhooks
  readonly links: Links
  readonly stores: Stores
  readonly purchases: Purchases
  readonly reviews: Reviews
}

/** An endpoint that asks for all kinds. */
export const endpoint = (id: string, more: Partial<NewEndpoint> = {}): NewEndpoint => ({
  ...{ id, storeId: 'store-1', url: `https://${id}.test/`, description: '', salt: `salt of ${id}` },
  ...{
    kinds: ['purchase.confirmed', 'refund.due', 'refund.recorded', 'link.suspended'],
    createdAtMs: startMs,
  },
  ...more,
})

/** What a sale tells. */
export const confirmed = { events: [{ kind: 'purchase.confirmed' }] } as const
/** A try that went well, or failed. */
export const tried = (error: string | null = null) => ({
  atMs: startMs,
  status: error === null ? 200 : 500,
  latencyMs: 12,
  error,
  response: 'so',
})

/** Events that were not delivered to any endpoint yet. */
export const kindsOf = async ({ webhooks }: WebhooksUnderTest) =>
  (await webhooks.awaitingFanOut(100)).map(({ kind }) => kind)

/** Waits of so many sales, spread over the endpoints that there are. */
export async function sold(
  s: WebhooksUnderTest,
  names: readonly string[],
  storeId = 'store-1',
): Promise<void> {
  for (const name of names) {
    const claim = sampleClaim(name, { storeId })
    const row = await claimed(s, claim)
    await s.ledger.apply(change(claim, row, 'claimed', 'settling'))
    const sale = { ...saleOf(samplePurchase(claim, `0x${name}`)), ...confirmed }
    await s.ledger.apply(change(claim, row, 'settling', 'settled', sale))
  }
  await fanOutAll(s)
}

export async function fanOutAll({ webhooks, clock }: WebhooksUnderTest): Promise<void> {
  const events = await webhooks.awaitingFanOut(1_000)
  await webhooks.fanOut(
    events.map(({ seq, id }) => ({ seq, body: `body of ${id}` })),
    clock.now(),
  )
}

export const take = ({ webhooks, clock }: WebhooksUnderTest, limit = 100) =>
  webhooks.take({ limit, nowMs: clock.now() })
