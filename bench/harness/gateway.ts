import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { payTo } from '../servers/offer.ts'
import { type Shipped, shippedProgram, startShipped } from './shipped.ts'

export interface GatewayOptions {
  /** The canned seller's. */
  readonly upstreamPort: number
  /** Where a node of a chain answers, `servers/chainNode.ts`. */
  readonly rpcPort: number
  readonly links: readonly SoldLink[]
  /** Processes that share the port. Default 1. */
  readonly workers?: number
  /** The smallest deposit of a payment channel, in USDC. Absent: the gateway offers no channels. */
  readonly minDeposit?: string
}

export interface SoldLink {
  readonly slug: string
  /** Path at the canned seller. */
  readonly path: string
  /** In USDC; absent: the link is free. */
  readonly price?: string
}

/**
 * `tollgate start` as it is installed, with the plugins and options of a new configuration but for limits that a bench does not
 * reach, and links that were made by its API: `/api/link/demo/<slug>`.
 *
 * @param folder empty; its database and configuration are made there
 * @param pin see {@link startShipped}
 */
export async function startGateway(
  { upstreamPort, rpcPort, links, workers = 1, minDeposit }: GatewayOptions,
  folder: string,
  port: number,
  pin: (command: readonly string[]) => readonly string[],
): Promise<Shipped> {
  const config = join(folder, 'tollgate.yaml')
  writeFileSync(config, configOf(randomBytes(32).toString('hex'), minDeposit))
  const env = { WORKERS: String(workers), RPC_URL: `http://127.0.0.1:${rpcPort}` }
  const gateway = await startShipped(config, port, env, pin)
  try {
    await sell(links, config, port, upstreamPort)
  } catch (error) {
    await gateway.stop()
    throw error
  }
  return gateway
}

async function sell(
  links: readonly SoldLink[],
  config: string,
  port: number,
  upstreamPort: number,
): Promise<void> {
  const args = [shippedProgram(), 'store', 'create', 'demo', '--base', payTo, '--config', config]
  const { apiKey } = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as {
    apiKey: string
  }
  for (const { slug, path, price = '0' } of links) {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/links`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
      body: JSON.stringify({ title: slug, slug, price, url: `http://127.0.0.1:${upstreamPort}${path}` }),
    })
    if (!response.ok) throw new Error(`The link ${slug} was not made: ${await response.text()}`)
  }
}

/**
 * The configuration of a gateway of the bench: that of a new one but for limits that are not reached. What differs between two starts is in
 * the environment: PORT, WORKERS, RPC_URL, FACILITATOR_KEY, PROBE.
 */
export const configOf = (operatorToken: string, minDeposit?: string): string => `# Written by the bench.
publicUrl: http://127.0.0.1:\${PORT:-18080}
gateway:
  port: \${PORT:-18080}
  workers: \${WORKERS:-1}
  drainTimeoutMs: 1000
admin:
  port: 0
  maxLinksPerStore: 1000000
  limits:
    keyPerMinute: 1000000
    keyPerHour: 1000000
    storePerMinute: 1000000
    discoverPerMinute: 1000000
operator:
  token: ${operatorToken}
storage:
  path: ./tollgate.db
secretFile: ./secret
networks:
  eip155:84532:
    rpcUrls: ['\${RPC_URL:-http://127.0.0.1:18082}']
    facilitator:
      privateKey: \${FACILITATOR_KEY:-0x${'1'.repeat(64)}}
${minDeposit === undefined ? '' : channelsSection(minDeposit)}egress:
  allowPrivateCidrs: ['127.0.0.0/8']
plugins:
  - use: rate-limit
    with: { points: 1000000000, paymentPoints: 1000000000 }
  - use: health
    with:
      probe: \${PROBE:-true}
  - use: x402
  - use: replay-guard
  - use: upstream
  - use: purchase-record
  - use: metrics
log:
  level: error
`

/** Nothing is claimed while the bench runs. */
const channelsSection = (minDeposit: string): string => `    channels:
      authorizerKeys: ['0x${'2'.repeat(64)}']
      minDeposit: '${minDeposit}'
      claimAmount: '1000000'
`
