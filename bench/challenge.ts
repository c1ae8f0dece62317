import { request } from 'node:http'
import type { Bench } from './bench.ts'
import type { Measured } from './figures.ts'
import { type Candidate, measure, ratio } from './harness/rounds.ts'
import { price } from './servers/offer.ts'

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
      const server = await servers.start('bareChallenge.ts', await answerOf(gateway.port))
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
function answerOf(port: number): Promise<{ headers: string[]; body: string }> {
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
