import { type Link, linkDefaults, type ServedLink } from '../../core/domain/link.ts'
import { priceRange } from '../../core/domain/pricing.ts'
import { webhookKinds } from '../../core/domain/webhook.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import { testPayTo } from '../helpers/settler.ts'
import { type CrashingStore, openCrashingStore } from '../helpers/store/crashingStore.ts'
import { usePrices } from './use/metering.ts'

/** What every process of a seed shares. */
export interface SharedStore extends CrashingStore {
  /** The seller's links: the first is charged after the answer, the second before, the others by their use. */
  readonly served: readonly ServedLink[]
}

/** Clocks of the seed that runs. */
export interface Clocks {
  readonly wall: Clock
  readonly store: Clock
}

/** One database for any number of seeds, one after the other. */
export interface SeedStores {
  /** The store as it was opened, for the next seed. */
  begin(clocks: Clocks): SharedStore
}

export async function openSeedStores(): Promise<SeedStores> {
  const never: Clock = { now: () => 0 }
  let clocks: Clocks = { wall: never, store: never }
  const store = await openCrashingStore({ now: () => clocks.wall.now() }, { now: () => clocks.store.now() })
  const shared = { ...store, served: await addLinks(store) }
  store.keep()
  return {
    begin(next) {
      clocks = next
      store.startAgain()
      return shared
    },
  }
}

const soldLinks: Readonly<Record<string, Partial<Link>>> = {
  after: { settle: 'after' },
  before: { settle: 'before' },
  held: { ...priceRange(usePrices.held), pricing: usePrices.held },
  streamed: { ...priceRange(usePrices.streamed), pricing: usePrices.streamed, responseMode: 'raw' },
}

async function addLinks(
  store: Pick<DataStore, 'links' | 'stores' | 'webhooks'>,
): Promise<readonly ServedLink[]> {
  const storeId = idOf(0)
  const times = { createdAtMs: 0, updatedAtMs: 0 }
  const names = { username: 'demo', displayName: '', bio: '', avatarUrl: '', developerModeEnabled: true }
  await store.stores.create(
    { id: storeId, ...names, createdBy: 'operator', payout: { base: testPayTo, solana: null }, ...times },
    null,
    {
      ...{ id: idOf(1), storeId, name: 'k', keyPrefix: 'tg_live_', keyHash: 'x', isActive: true },
      ...{ lastUsedAtMs: null, revokedAtMs: null, createdAtMs: 0 },
    },
  )
  const links: ServedLink[] = []
  for (const [i, [slug, more]] of Object.entries(soldLinks).entries()) {
    await store.links.create({
      ...linkDefaults,
      ...times,
      id: idOf(2 + i),
      storeId,
      slug,
      url: 'http://seller.test/',
      title: slug,
      price: '0.10',
      isPublic: true,
      isActive: true,
      ...more,
    })
    links.push((await store.links.served('demo', slug))!)
  }
  // An endpoint gets every event, so that the ledger check demands it.
  const endpoint = { id: 'e', storeId, url: 'https://seller.test', description: '', salt: 's' }
  await store.webhooks.create({ ...endpoint, kinds: webhookKinds, createdAtMs: 0 }, 9)
  return links
}

const idOf = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`
