import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSealer } from '../../adapters/secrets/createSealer.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { configOf } from '../harness/gateway.ts'
import { callAll } from './callers.ts'
import { openDirect } from './directStore.ts'
import { sellAll } from './sales.ts'
import { createSeeded } from './seeded.ts'
import { DAY_MS, OPENED_DAYS_AGO, openStores } from './sellers.ts'

/** Where the sellers of a store are that is filled to be kept. */
export const UPSTREAM_PORT = 18_081
/** An address of this machine for each seller, as far as they reach. */
export const hostOf = (store: number): string =>
  `127.${1 + (store >> 16)}.${(store >> 8) & 255}.${1 + (store & 127)}`

export interface FillOptions {
  /** Empty, or not there: it gets the database, the server's secret and a configuration file. */
  readonly folder: string
  readonly links: number
  readonly sales: number
  /** Where the sellers' APIs answer on this machine, each store's at a loopback address of its own. */
  readonly upstreamPort: number
  readonly seed?: number
  /** "Now" of everything that is written. Default: the time of the call, to the hour. */
  readonly nowMs?: number
  progress?(line: string): void
}

/** What a bench has to know of a filled store; `filled.json` beside the database. */
export interface Filled {
  readonly links: number
  readonly sales: number
  /** The store with a tenth of all links and a fifth of all sales, and one with a hundred links. */
  readonly largest: FilledStore
  readonly usual: FilledStore
  /** The largest store's endpoint for webhooks. */
  readonly webhookId: string
  /** Paths of links that can be called: free ones, and ones that ask for a payment. */
  readonly free: readonly string[]
  readonly paid: readonly string[]
  readonly operatorToken: string
}

export interface FilledStore {
  readonly username: string
  readonly apiKey: string
}

/**
 * Fills a store as a year of business would: by the product's own adapters and rules, in one transaction. The same options
 * give the same stores, links and sales; random are the ids of webhooks' events and deliveries.
 */
export async function fillStore(options: FillOptions): Promise<Filled> {
  const { folder, links, sales, upstreamPort, seed = 1, progress = () => {} } = options
  const nowMs = options.nowMs ?? Math.floor(Date.now() / 3_600_000) * 3_600_000
  mkdirSync(folder, { recursive: true })
  const seeded = createSeeded(seed)
  const secret = seeded.hex('secret')
  writeFileSync(join(folder, 'secret'), `${secret}\n`, { mode: 0o600 })
  const sealer = createSealer(Buffer.from(secret, 'hex'))
  const notes = createPurchaseNotes(sealer, '_svc')
  const clock = { atMs: nowMs - OPENED_DAYS_AGO * DAY_MS }
  const direct = await openDirect(join(folder, 'tollgate.db'), { now: () => clock.atMs })
  const sellers = await openStores(direct, seeded, sealer, {
    ...{ links, nowMs },
    urlOf: (store) => `http://${hostOf(store)}:${upstreamPort}`,
  })
  progress(`${sellers.length} stores, ${links} links`)
  await sellAll({
    ...{ direct, seeded, sellers, clock, nowMs, count: sales },
    tokenHash: notes.tokenHash,
    progress: (done) => progress(`${done} of ${sales} sales`),
  })
  await callAll(direct, seeded, sellers, nowMs)
  progress('calls and health checks')
  await direct.figures.sumUp()
  while ((await direct.discovery.recount(nowMs)) > 0);
  await direct.sessions.expire(nowMs, sales)
  direct.commit()
  progress('committed')
  const pathsOf = (which: 'free' | 'paid') =>
    sellers.flatMap((seller) => seller[which].map(({ slug }) => `/api/link/${seller.store.username}/${slug}`))
  const [largest, usual] = [sellers[0]!, sellers[Math.min(1, sellers.length - 1)]!].map(
    ({ store, apiKey }) => ({
      ...{ username: store.username, apiKey },
    }),
  )
  const filled: Filled = {
    ...{ links, sales, largest: largest!, usual: usual!, operatorToken: seeded.hex('operator') },
    ...{ webhookId: seeded.uuid('webhook', 0), free: pathsOf('free'), paid: pathsOf('paid') },
  }
  writeFileSync(join(folder, 'filled.json'), JSON.stringify(filled))
  writeFileSync(join(folder, 'tollgate.yaml'), configOf(filled.operatorToken))
  return filled
}
