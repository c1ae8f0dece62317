import { request } from 'node:http'
import type { Bench } from './bench.ts'
import { median } from './harness/median.ts'
import { type Candidate, measure, ratio } from './harness/rounds.ts'
import { price } from './servers/offer.ts'
import type { Measured } from './stats.ts'

const sizes = ['1k', '100k'] as const

/**
 * What `{"data":…,"_svc":…}` around a bought answer costs against the same answer raw. Nothing is checked or stored
 * (servers/boughtPlugin.ts), since beside a signature check any wrapper would look free.
 */
export const wrap: Bench = {
  keys: ['wrap1k_vs_none', 'wrap100k_vs_none'],
  async run(context) {
    const { servers, wants, progress } = context
    const { port: upstreamPort } = await servers.upstream()
    const links = sizes.flatMap((size) =>
      (['wrap', 'raw'] as const).map((responseMode) => ({
        slug: `${responseMode}-${size}`,
        path: `/${size}`,
        price: '0.10',
        responseMode,
      })),
    )
    const plugins = ['rate-limit', 'health', 'bench-bought', 'upstream', 'metrics']
    const folder = servers.folder()
    const server = await servers.start('gateway.ts', { upstreamPort, folder, links, plugins })
    const measured: Measured = {}
    for (const size of sizes) {
      const key = `wrap${size}_vs_none` as const
      if (!wants(key)) continue
      progress(`bought answer of ${size}:`)
      const names = [`wrap-${size}`, `raw-${size}`] as const
      const candidates = names.map((name) => ({
        name,
        server,
        load: () => ({ path: `/api/link/demo/${name}` }),
        expect: 'success' as const,
      }))
      measured[key] = ratio(await measure(candidates, context), ...names)
    }
    return measured
  },
}

/** What one more plugin costs a call: hooks that do nothing, run by the kernel in a process of its own. */
export const plugins: Bench = {
  keys: ['plugin_sync_ns', 'plugin_async_ns'],
  async run({ servers, isQuick, rounds, progress }) {
    const calls = isQuick ? 200_000 : 1_000_000
    const samples: { sync: number; async: number }[] = []
    for (let round = 0; round < rounds; round++) {
      samples.push(await servers.job<{ sync: number; async: number }>('pluginCost.ts', { calls }))
    }
    const sync = median(samples.map((sample) => sample.sync))
    const late = median(samples.map((sample) => sample.async))
    progress(`one more plugin: ${sync.toFixed(1)} ns, answering later ${late.toFixed(1)} ns`)
    return { plugin_sync_ns: sync, plugin_async_ns: late }
  },
}

/**
 * Whether counters of our own in memory are worth their code: free calls, which take once, and 402s, where little else
 * happens, on a gateway with them and on one with rate-limiter-flexible's.
 */
export const counters: Bench = {
  keys: ['free1k_vs_library_counters', 'challenge_vs_library_counters'],
  async run(context) {
    const { servers, progress } = context
    const { port: upstreamPort } = await servers.upstream()
    const links = [
      { slug: '1k', path: '/1k' },
      { slug: 'paid', path: '/1k', price: '0.01' },
    ]
    const gateways: Pick<Candidate, 'name' | 'server'>[] = []
    for (const counters of ['own', 'library'] as const) {
      const folder = servers.folder()
      gateways.push({
        name: `counters: ${counters}`,
        server: await servers.start('gateway.ts', { upstreamPort, folder, links, counters }),
      })
    }
    const compare = async (slug: string, expect: 'success' | 'refusal') => {
      progress(`${slug === 'paid' ? '402' : 'answer of 1k'}, by whose counters:`)
      const candidates = gateways.map((gateway) => ({
        ...gateway,
        expect,
        load: () => ({ path: `/api/link/demo/${slug}` }),
      }))
      return ratio(await measure(candidates, context), 'counters: own', 'counters: library')
    }
    return {
      free1k_vs_library_counters: await compare('1k', 'success'),
      challenge_vs_library_counters: await compare('paid', 'refusal'),
    }
  },
}

const ours = 'tollgate'
const bare = 'bare node:http'
const express = '@x402/express'
const path = '/api/link/demo/paid'

/** Calls without a payment: the 402, against node:http answering the very same bytes, and against @x402/express. */
export const challenge: Bench = {
  keys: ['challenge_vs_bare_node_http', 'challenge_vs_x402_express'],
  async run(context) {
    const { servers, wants, progress } = context
    const { port: upstreamPort } = await servers.upstream()
    const gateway = await servers.gateway({ upstreamPort, links: [{ slug: 'paid', path: '/1k', price }] })
    const candidates: Candidate[] = [
      { name: ours, server: gateway, load: () => ({ path }), expect: 'refusal' },
    ]
    if (wants('challenge_vs_bare_node_http')) {
      const server = await servers.start('bareChallenge.ts', await responseOf(gateway.port))
      candidates.push({ name: bare, server, load: () => ({ path }), expect: 'refusal' })
    }
    if (wants('challenge_vs_x402_express')) {
      const server = await servers.start('x402Express.js')
      candidates.push({ name: express, server, load: () => ({ path: '/paid' }), expect: 'refusal' })
    }
    progress('402 challenge:')
    const costs = await measure(candidates, context)
    const measured: Measured = {}
    if (costs.has(bare)) measured.challenge_vs_bare_node_http = ratio(costs, ours, bare)
    if (costs.has(express)) measured.challenge_vs_x402_express = ratio(costs, ours, express)
    return measured
  },
}

/** The gateway's 402, less what node adds by itself. */
function responseOf(port: number): Promise<{ headers: string[]; body: string }> {
  return new Promise((resolve, reject) => {
    request({ port, path, host: '127.0.0.1' }, (res) => {
      let body = ''
      res.setEncoding('latin1')
      res.on('data', (chunk: string) => (body += chunk))
      res.on('end', () => {
        const headers: string[] = []
        for (let i = 0; i < res.rawHeaders.length; i += 2) {
          const name = res.rawHeaders[i]!
          if (!/^(date|connection|keep-alive)$/i.test(name)) headers.push(name, res.rawHeaders[i + 1]!)
        }
        resolve({ headers, body })
      })
    })
      .on('error', reject)
      .end()
  })
}
