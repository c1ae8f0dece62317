import { Agent, request } from 'node:http'
import { percentile } from '../harness/median.ts'
import type { Filled } from './fillStore.ts'

/** What sellers, buyers and the operator look at, by the name of its figure; of the largest store. */
export const reads = {
  links: { what: 'links of a store, a page', path: () => '/api/v1/links?limit=100' },
  store: { what: 'a store, public', path: ({ largest }: Filled) => `/api/store/${largest.username}` },
  stats: { what: 'figures of 30 days', path: () => '/api/v1/stats?period=30d' },
  stats_all: { what: 'figures of all time', path: () => '/api/v1/stats?period=all' },
  timeseries: { what: 'figures by the day', path: () => '/api/v1/stats/timeseries?period=30d' },
  attention: { what: 'what waits for the seller', path: () => '/api/dashboard/attention' },
  purchases: { what: 'purchases, a page', path: () => '/api/v1/purchases?limit=100' },
  discover: {
    what: 'discovery, a search',
    path: (_: Filled, n: number) => `/api/discover?q=chess&offset=${n}`,
  },
  reviews: {
    what: 'reviews of a store',
    path: ({ largest }: Filled) => `/api/reviews?username=${largest.username}`,
  },
  sessions: { what: 'payment sessions, a page', path: () => '/api/v1/payments?limit=100' },
  deliveries: {
    what: "a webhook's deliveries, a page",
    path: ({ webhookId }: Filled) => `/api/v1/webhooks/${webhookId}/deliveries?limit=100`,
  },
  operator: { what: "the operator's stores", path: () => '/api/operator/stores' },
} as const satisfies Readonly<Record<string, { what: string; path(filled: Filled, n: number): string }>>

export type ReadName = keyof typeof reads
export const readNames = Object.keys(reads) as readonly ReadName[]

/** Asks as a seller's program and the operator's page do, one request at a time. */
export interface Reader {
  /** @returns how long the answer took, in ms */
  read(name: ReadName): Promise<number>
  close(): void
}

export async function createReader(port: number, filled: Filled): Promise<Reader> {
  const agent = new Agent({ keepAlive: true })
  const own = `http://127.0.0.1:${port}`
  const page = { origin: own, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
  const signedIn = await fetch(`${own}/api/operator/session`, {
    method: 'POST',
    headers: page,
    body: JSON.stringify({ token: filled.operatorToken }),
  })
  const cookie = signedIn.headers
    .getSetCookie()
    .map((one) => one.split(';')[0])
    .join('; ')
  if (signedIn.status !== 201) throw new Error(`The operator could not sign in: ${await signedIn.text()}`)
  let asked = 0

  return {
    read(name) {
      const path = reads[name].path(filled, asked++ % 50)
      const headers =
        name === 'operator' ? { ...page, cookie } : { authorization: `Bearer ${filled.largest.apiKey}` }
      const startedMs = performance.now()
      return new Promise((resolve, reject) => {
        const question = request({ port, host: '127.0.0.1', path, agent, headers }, (response) => {
          let text = ''
          response.on('data', (chunk) => {
            if (response.statusCode !== 200) text += chunk
          })
          response.on('end', () => {
            if (response.statusCode === 200) resolve(performance.now() - startedMs)
            else reject(new Error(`GET ${path} answered ${response.statusCode}: ${text.slice(0, 300)}`))
          })
        })
        question.on('error', reject)
        question.end()
      })
    },
    close: () => agent.destroy(),
  }
}

/** Reads one of them over and over. @param most fewer where it takes long */
export async function timesOf(
  reader: Reader,
  name: ReadName,
  most: number,
): Promise<{ firstMs: number; p50Ms: number; p99Ms: number }> {
  const times: number[] = []
  const endsMs = performance.now() + 10_000
  while (times.length < most && (times.length < 3 || performance.now() < endsMs))
    times.push(await reader.read(name))
  return { firstMs: times[0]!, p50Ms: percentile(times, 50), p99Ms: percentile(times, 99) }
}
