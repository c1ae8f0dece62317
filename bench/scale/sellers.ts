import { apiKeyFrom, prefixOf } from '../../admin-api/sellers/apiKey.ts'
import { type Link, linkDefaults } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import type { DirectStore } from './directStore.ts'
import type { Seeded } from './seeded.ts'

export const DAY_MS = 24 * 60 * 60 * 1000
/** So long ago the first store opened. */
export const OPENED_DAYS_AGO = 400
const LINKS_OF_A_STORE = 100

export interface Seller {
  readonly store: Store
  readonly apiKey: string
  readonly links: readonly Link[]
  /** Those that can be called, at an address that everybody may know: APIs that cost something, and those that don't. */
  readonly paid: readonly Link[]
  readonly free: readonly Link[]
}

/** What links are about, the more often the further in front: the first word is in a fifth of all titles. */
const subjects = `weather news prices maps images translation summary search voice music stocks flights hotels
  recipes sports football tennis chess poetry history genomes proteins minerals volcanoes lighthouses`.split(
  /\s+/,
)
const adjectives = 'live daily fast exact cheap global local historic open private'.split(' ')
/** Of a hundred links these two. */
const [suspended, deleted] = [57, 71]
const isHarmed = (i: number) => i % 100 === suspended || i % 100 === deleted
const prices = '0.001 0.005 0.01 0.02 0.05 0.1 0.25 0.5 1 2.5 9.99'.split(' ')

/**
 * Opens stores and puts links into them: the first store has a tenth of all links, the others a hundred each. Of the links a
 * fifth is free, some are unlisted, stealth, suspended or deleted.
 *
 * @param urlOf where a store's APIs are
 */
export async function openStores(
  direct: DirectStore,
  seeded: Seeded,
  sealer: Sealer,
  { links, nowMs, urlOf }: { readonly links: number; readonly nowMs: number; urlOf(store: number): string },
): Promise<Seller[]> {
  const sellers: Seller[] = []
  const largest = Math.ceil(links / 10)
  for (let left = links, n = 0; left > 0; n++) {
    const own = Math.min(left, n === 0 ? largest : LINKS_OF_A_STORE)
    sellers.push(await openOne(n, own))
    left -= own
  }
  return sellers

  async function openOne(n: number, count: number): Promise<Seller> {
    const id = seeded.uuid('store', n)
    const createdAtMs = nowMs - OPENED_DAYS_AGO * DAY_MS + n * 1_000
    const apiKey = apiKeyFrom(Buffer.from(seeded.hex('api key', n), 'hex'))
    const common = { createdAtMs, updatedAtMs: createdAtMs }
    const store = {
      ...common,
      id,
      username: `seller_${n}`,
      displayName: `Seller ${n}`,
      bio: 'Sells answers.',
      avatarUrl: '',
      developerModeEnabled: true,
      createdBy: 'agent',
      socials: [],
      payoutChangedAtMs: null,
      payout: { base: walletOf('payout', n), solana: null },
    } as const satisfies Store
    const { socials, payoutChangedAtMs, ...opened } = store
    await direct.stores.create(
      opened,
      { chain: 'base', address: walletOf('owner', n), storeId: id },
      {
        id: seeded.uuid('key', n),
        storeId: id,
        name: 'Made at sign-up',
        isActive: true,
        createdAtMs,
        keyPrefix: prefixOf(apiKey),
        keyHash: sealer.mac('api-key', apiKey).toString('hex'),
        lastUsedAtMs: null,
        revokedAtMs: null,
      },
    )
    const made: Link[] = []
    for (let i = 0; i < count; i++) {
      const link = linkOf(n, i, id, createdAtMs + (i + 1) * 1_000)
      await direct.links.create(link)
      made.push(link)
      await harm(link, i)
    }
    const live = made.filter(({ linkType, isStealth }, i) => linkType === 'api' && !isStealth && !isHarmed(i))
    const [free = [], paid = []] = [true, false].map((isFree) =>
      live.filter(({ price }) => (price === '0') === isFree),
    )
    return { store, apiKey, links: made, paid, free }
  }

  function linkOf(n: number, i: number, storeId: string, createdAtMs: number): Link {
    const [subject, other] = [subjects[seeded.few(subjects.length)]!, seeded.pick(subjects)]
    const isStealth = i % 97 === 96
    return {
      ...linkDefaults,
      id: seeded.uuid('link', n, i),
      storeId,
      slug: `${subject}-${i}`,
      url: `${urlOf(n)}/1k?link=${i}`,
      title: `${seeded.pick(adjectives)} ${subject} no ${i}`,
      description: `All about ${subject} and ${other}, ${seeded.pick(adjectives)} and ${seeded.pick(adjectives)}; number ${i}.`,
      price: i % 5 === 4 ? '0' : seeded.pick(prices),
      linkType: i % 10 === 9 ? 'standard' : 'api',
      isStealth,
      privateSlug: isStealth ? seeded.hex('slug', n, i).slice(0, 32) : null,
      isPublic: i % 10 !== 3,
      isActive: true,
      suspension: null,
      tags: [subject, other],
      ...(i % 2 === 0 && { inputSchema: schema, outputExample: example }),
      createdAtMs,
      updatedAtMs: createdAtMs,
      version: 1,
    }
  }

  async function harm({ id, createdAtMs }: Link, i: number): Promise<void> {
    if (i % 100 === suspended) {
      const sinceMs = nowMs - DAY_MS
      const reason = 'The last 3 or more health checks failed, over at least 5 minutes.'
      await direct.links.setSuspension(
        id,
        { sinceMs, reason, cooldownUntilMs: sinceMs, permanent: false },
        sinceMs,
      )
    } else if (i % 100 === deleted) await direct.links.deactivate(id, createdAtMs + DAY_MS)
  }

  function walletOf(what: string, n: number): string {
    return `0x${seeded.hex(what, n).slice(0, 40)}`
  }
}

const schema = {
  type: 'object',
  required: ['city'],
  properties: {
    city: { type: 'string', minLength: 1, maxLength: 100, description: 'Name of a city, in English.' },
    days: { type: 'integer', minimum: 1, maximum: 14, description: 'How many days ahead.' },
  },
}
const example = { city: 'Lisbon', days: [{ day: '2026-11-22', high: 19, low: 12, rain: 0.2 }] }
