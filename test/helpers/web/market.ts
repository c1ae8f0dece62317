import { randomUUID } from 'node:crypto'
import { DAY_MS } from '../../../core/ports/store/stats.ts'
import { sell } from '../admin-api/sell.ts'
import type { Fixture } from '../admin-api/startAdmin.ts'

const samples = [
  [
    'Weather of a city',
    'Temperature, wind and sky, measured within the last ten minutes, for 40,000 places.',
    '0.01',
    ['weather', 'live'],
  ],
  [
    'Company register',
    'Who owns it, since when, and where it is registered. Forty countries.',
    '0.25',
    ['business'],
  ],
  ['Translate a text', 'Into 60 languages, with the tone that you ask for.', '0.002', ['language', 'text']],
  ['Exchange rates', 'Mid-market rates of 160 currencies, every minute.', '0', ['finance', 'live']],
  ['Image to text', 'Reads what stands in a picture, tables included.', '0.03', ['vision', 'text']],
  ['Domain history', 'Every owner and every name server that a domain had.', '1.5', ['web']],
] as const

const inputSchema = {
  type: 'object',
  required: ['city'],
  properties: {
    city: { type: 'string', description: 'A name, or latitude and longitude.', example: 'Lisbon' },
    days: { type: 'integer', description: 'Days ahead, at most 7.' },
    units: { enum: ['metric', 'imperial'], default: 'metric' },
    hourly: { type: 'boolean' },
  },
}
const outputExample = { city: 'Lisbon', temperatureC: 21, sky: 'clear', wind: { kmh: 14, from: 'NW' } }

const comments = ['Fast, and right so far.', 'Does what it says.', null, 'Was down on Sunday.', 'Good value.']

export interface FilledMarket {
  readonly username: string
  /** Of the first link. */
  readonly slug: string
  readonly key: string
}

/** Fills a service with a store that has sold for a month: links, sales, health checks, reviews. */
export async function fillMarket(f: Fixture): Promise<FilledMarket> {
  const { key, username, id: storeId } = await f.store()
  const profile = {
    displayName: 'Northwind Data',
    bio: 'Public data, cleaned and kept fresh.\nIn business since 2019.',
  }
  await f.call('PATCH', '/api/v1/profile', { key, body: profile })
  const url = await f.seller()
  const nowMs = f.clock.now()
  let sold = 0
  for (const [i, [title, description, price, tags]] of samples.entries()) {
    const link = {
      url,
      title,
      description,
      price,
      tags,
      isPublic: true,
      inputSchema,
      outputExample,
      methods: ['GET'],
    }
    const { body } = await f.call('POST', '/api/v1/links', { key, body: link })
    const linkId = body.data.id as string
    for (let day = 0; day < 30; day++) {
      const atMs = nowMs - day * DAY_MS
      await f.db.stats.addTraffic([
        {
          linkId,
          hour: Math.floor(atMs / 3_600_000),
          views: 40,
          challenges: 30,
          calls: 17 * (6 - i) + day,
          failedCalls: 0,
        },
      ])
      // A bad day, and days before the first check.
      const fails = i === 0 && day === 9 ? 3 : i === 1 && day === 4 ? 1 : 0
      if (day > 24 && i === 0) continue
      for (let probe = 0; probe < 8; probe++) {
        const ok = probe >= fails
        await f.db.links.addHealthEvent({
          linkId,
          atMs: atMs - probe,
          kind: 'probe',
          ok,
          status: ok ? 200 : 502,
          latencyMs: 80,
          detail: '',
        })
      }
    }
    if (price === '0') continue
    for (let n = 0; n < 5 - (i % 3); n++) {
      const wallet = `0x${String(++sold).padStart(40, '0')}`
      const purchaseId = await sell(f.db, {
        storeId,
        linkId,
        amount: price,
        atMs: nowMs - n * DAY_MS,
        buyer: wallet,
      })
      await f.db.reviews.add({
        ...{
          id: randomUUID(),
          purchaseId,
          linkId,
          storeId,
          wallet,
          isPositive: n !== 3,
          comment: comments[n]!,
        },
        createdAtMs: nowMs - n * DAY_MS,
      })
    }
  }
  await f.db.discovery.recount(nowMs)
  const { body } = await f.call('GET', `/api/store/${username}`)
  return { key, username, slug: body.links.at(-1).slug }
}
