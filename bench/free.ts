import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Bench, BenchContext } from './bench.ts'
import type { Load } from './harness/load.ts'
import { type Candidate, measure, ratio } from './harness/rounds.ts'
import type { Server } from './harness/servers.ts'
import { cannedJson } from './servers/offer.ts'
import type { Measured, StatKey } from './stats.ts'

const ours = 'tollgate'
type Peers = Readonly<Record<string, { readonly key: StatKey; readonly server: Server | null }>>

/**
 * Free calls through the whole pipeline (limiter, health, upstream, metrics; SQLite store) against reverse proxies that
 * do nothing else, and against a relay that is only undici's dispatch between two node servers.
 */
export const free: Bench = {
  keys: [
    'free1k_vs_http_proxy_3',
    'free1k_vs_fastify_http_proxy',
    'free1k_vs_nginx',
    'free1k_vs_bare_dispatch',
    'free100k_vs_http_proxy_3',
    'free100k_vs_nginx',
    'post10k_vs_http_proxy_3',
    'post10k_vs_nginx',
  ],
  async run(context) {
    const { servers, wants } = context
    const { port: upstreamPort } = await servers.upstream()
    const links = ['1k', '100k'].map((size) => ({ slug: `json-${size}`, path: `/${size}` }))
    const gateway = await servers.gateway({ upstreamPort, links })
    const wanted = (...keys: StatKey[]) => keys.some(wants)
    const nginx = wanted('free1k_vs_nginx', 'free100k_vs_nginx', 'post10k_vs_nginx')
      ? await servers.nginx(upstreamPort)
      : null
    const httpProxy3 = wanted('free1k_vs_http_proxy_3', 'free100k_vs_http_proxy_3', 'post10k_vs_http_proxy_3')
      ? await servers.start('httpProxy3.js', { upstreamPort })
      : null
    const fastify = wants('free1k_vs_fastify_http_proxy')
      ? await servers.start('fastifyHttpProxy.js', { upstreamPort })
      : null
    const bare = wants('free1k_vs_bare_dispatch')
      ? await servers.start('bareDispatch.ts', { upstreamPort })
      : null
    const bodyFile = join(servers.folder(), 'body')
    writeFileSync(bodyFile, cannedJson(10_240))

    return {
      ...(await compare(
        context,
        gateway,
        '1k',
        {},
        {
          'http-proxy-3': { key: 'free1k_vs_http_proxy_3', server: httpProxy3 },
          '@fastify/http-proxy': { key: 'free1k_vs_fastify_http_proxy', server: fastify },
          nginx: { key: 'free1k_vs_nginx', server: nginx },
          'bare dispatch': { key: 'free1k_vs_bare_dispatch', server: bare },
        },
      )),
      ...(await compare(
        context,
        gateway,
        '100k',
        {},
        {
          'http-proxy-3': { key: 'free100k_vs_http_proxy_3', server: httpProxy3 },
          nginx: { key: 'free100k_vs_nginx', server: nginx },
        },
      )),
      ...(await compare(
        context,
        gateway,
        '1k',
        { method: 'POST', bodyFile },
        {
          'http-proxy-3': { key: 'post10k_vs_http_proxy_3', server: httpProxy3 },
          nginx: { key: 'post10k_vs_nginx', server: nginx },
        },
      )),
    }
  },
}

/** Measures the gateway beside those peers whose figure was asked for. */
async function compare(
  context: BenchContext,
  gateway: Server,
  size: string,
  load: Partial<Load>,
  peers: Peers,
): Promise<Measured> {
  const measured: Measured = {}
  const candidates: Candidate[] = [
    {
      name: ours,
      server: gateway,
      load: () => ({ ...load, path: `/api/link/demo/json-${size}` }),
      expect: 'success',
    },
  ]
  for (const [name, { key, server }] of Object.entries(peers)) {
    if (!context.wants(key)) continue
    measured[key] = null
    if (server === null) continue
    candidates.push({ name, server, load: () => ({ ...load, path: `/${size}` }), expect: 'success' })
  }
  if (candidates.length === 1) return measured
  context.progress(`${load.method === 'POST' ? 'POST of 10 KB, ' : ''}answer of ${size}:`)
  const costs = await measure(candidates, context)
  for (const { name } of candidates.slice(1)) measured[peers[name]!.key] = ratio(costs, ours, name)
  return measured
}
