import { randomUUID } from 'node:crypto'
import { testPayTo } from '../helpers/settler.ts'
import { openInlineStore } from './inlineStore.ts'
import type { Scheduler } from './scheduler.ts'
import type { Simulation } from './simulate.ts'

/** The tables, a store and its two links, for as many seeds as one likes. */
export async function openSimulation(): Promise<Simulation> {
  let scheduler: Scheduler | undefined
  const clock = { now: () => scheduler?.nowMs ?? 0 }
  const store = await openInlineStore(clock)
  const storeId = randomUUID()
  const times = { createdAtMs: 0, updatedAtMs: 0 }
  await store.stores.create(
    {
      ...{
        id: storeId,
        username: 'demo',
        displayName: '',
        bio: '',
        avatarUrl: '',
        developerModeEnabled: true,
      },
      ...{ createdBy: 'operator', payout: { base: testPayTo, solana: null }, ...times },
    },
    null,
    {
      ...{ id: randomUUID(), storeId, name: 'k', keyPrefix: 'tg_live_', keyHash: 'x', isActive: true },
      ...{ lastUsedAtMs: null, revokedAtMs: null, createdAtMs: 0 },
    },
  )
  for (const settle of ['after', 'before'] as const) {
    await store.links.create({
      ...{
        id: randomUUID(),
        storeId,
        slug: settle,
        settle,
        url: 'http://seller.test/',
        title: settle,
        description: '',
      },
      ...{
        price: '0.10',
        isPublic: true,
        isActive: true,
        linkType: 'api',
        isStealth: false,
        privateSlug: null,
      },
      ...{ webhookUrl: null, methods: [], inputSchema: null, outputExample: null, tags: [], iconUrl: null },
      ...{ responseMode: 'wrap', upstreamHeadersSealed: null, ...times },
    })
  }
  const after = (await store.links.served('demo', 'after'))!
  const before = (await store.links.served('demo', 'before'))!
  return {
    store,
    links: [after, before],
    setClock(next) {
      scheduler = next
    },
  }
}
