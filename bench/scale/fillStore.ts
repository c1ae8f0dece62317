import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { CHECK_RETENTION_HOURS, type Check } from '../../core/ports/store/healthChecks.ts'
import { configOf } from '../harness/gateway.ts'
import { type DirectStore, openDirect } from './directStore.ts'
import { sellAll } from './sales.ts'
import { createSeeded, type Seeded } from './seeded.ts'
import { DAY_MS, OPENED_DAYS_AGO, openStores, type Seller } from './sellers.ts'

const HOUR_MS = 60 * 60 * 1000
/** So long links have been asked whether they answer. */
const PROBED_DAYS = 30
/** Of these the last ones are noted one by one, and of so many links one was not well at first. */
const LATEST_CHECKS = { hours: 3, failing: 50 }
/** Interval between two checks of a link that is not called, in ms. The checks are spread evenly over it. */
const TURNS_MS = HOUR_MS
/** Every so many links of a store are called each hour of the last days. */
const BUSY = { each: 50, hours: 48 }

const NOTED_AT_ONCE = 1_000

/** Who looked at links and called them lately, and the health checks of a month. */
async function callAll(
  direct: DirectStore,
  seeded: Seeded,
  sellers: readonly Seller[],
  nowMs: number,
): Promise<void> {
  const hour = Math.floor(nowMs / HOUR_MS)
  for (const { links } of sellers) {
    for (let i = 0; i < links.length; i += BUSY.each) {
      const linkId = links[i]!.id
      const rows = Array.from({ length: BUSY.hours }, (_, back) => {
        const views = 1 + seeded.few(40)
        return {
          linkId,
          hour: hour - back,
          views,
          challenges: views * 2,
          calls: views,
          failedCalls: seeded.few(2),
        }
      })
      await direct.stats.addTraffic(rows)
    }
  }
  // What a month of health checks comes to, in the place of forty thousand of each link.
  const { connection } = direct
  const today = Math.floor(nowMs / DAY_MS)
  connection.exec(`
    WITH RECURSIVE days (day) AS (SELECT ${today - PROBED_DAYS} UNION ALL SELECT day + 1 FROM days WHERE day < ${today - 1})
    INSERT INTO link_days (link_id, day, probes, failed_probes)
      SELECT id, day, 1440, 3 FROM (SELECT id FROM links WHERE is_active = 1 ORDER BY id) CROSS JOIN days WHERE true
      ON CONFLICT (link_id, day) DO UPDATE SET probes = excluded.probes, failed_probes = excluded.failed_probes`)
  const hours = Array.from(
    { length: CHECK_RETENTION_HOURS - LATEST_CHECKS.hours },
    (_, n) => `(${hour - LATEST_CHECKS.hours - n - 1})`,
  )
  connection.exec(`
    WITH hours (hour) AS (VALUES ${hours.join()})
    INSERT INTO check_hours (link_id, hour, checks, failed, latency_sum_ms, latency_max_ms)
      SELECT link_id, hour, 1, 0, 12, 12 FROM (SELECT link_id FROM link_checks ORDER BY link_id) CROSS JOIN hours`)
  const asked = sellers.flatMap(({ links }) => links.filter(({ linkType }) => linkType === 'api'))
  for (let back = LATEST_CHECKS.hours; back > 0; back--) {
    for (let from = 0; from < asked.length; from += NOTED_AT_ONCE) {
      const checks = asked.slice(from, from + NOTED_AT_ONCE).map(({ id: linkId }, i): Check => {
        const ok = (from + i) % LATEST_CHECKS.failing > 0 || back < LATEST_CHECKS.hours
        const status = ok ? 200 : 503
        const atMs = nowMs - back * HOUR_MS
        const next = {
          atMs: nowMs + Math.floor(TURNS_MS * seeded.random()),
          isFailing: false,
          calledSinceMs: atMs,
        }
        return { linkId, atMs, ok, status, latencyMs: 12, detail: `The response has status ${status}.`, next }
      })
      await direct.healthChecks.note(checks)
    }
  }
}

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
    links,
    nowMs,
    urlOf: (store) => `http://${hostOf(store)}:${upstreamPort}`,
  })
  progress(`${sellers.length} stores, ${links} links`)
  await sellAll({
    direct,
    seeded,
    sellers,
    clock,
    nowMs,
    count: sales,
    tokenHash: notes.tokenHash,
    progress: (done) => progress(`${done} of ${sales} sales`),
  })
  await callAll(direct, seeded, sellers, nowMs)
  progress('calls and health checks')
  await direct.stats.sumUp()
  while ((await direct.discovery.recount(nowMs)) > 0);
  await direct.sessions.expire(nowMs, sales)
  direct.commit()
  progress('committed')
  const pathsOf = (which: 'free' | 'paid') =>
    sellers.flatMap((seller) => seller[which].map(({ slug }) => `/api/link/${seller.store.username}/${slug}`))
  const [largest, usual] = [sellers[0]!, sellers[Math.min(1, sellers.length - 1)]!].map(
    ({ store, apiKey }) => ({
      username: store.username,
      apiKey,
    }),
  )
  const filled: Filled = {
    links,
    sales,
    largest: largest!,
    usual: usual!,
    operatorToken: seeded.hex('operator'),
    webhookId: seeded.uuid('webhook', 0),
    free: pathsOf('free'),
    paid: pathsOf('paid'),
  }
  writeFileSync(join(folder, 'filled.json'), JSON.stringify(filled))
  writeFileSync(join(folder, 'tollgate.yaml'), configOf(filled.operatorToken))
  return filled
}
