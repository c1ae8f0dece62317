import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Api, startApi } from '../e2e/helpers/api.ts'
import { type Chain, type Chains, newSellerWallets, startChains } from '../e2e/helpers/chains.ts'
import { type Child, startGateway } from '../e2e/helpers/child.ts'
import { type ConfigFile, writeConfig } from '../e2e/helpers/config.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { openStore } from '../e2e/helpers/store.ts'
import { type PostgresServer, startPostgresServer } from '../helpers/servers/startPostgresServer.ts'
import { type RedisServer, startRedisServer } from '../helpers/servers/startRedisServer.ts'
import type { SoakOptions } from './options.ts'

/** One `tollgate start`, which may be killed and started again. */
export interface Gateway {
  readonly name: string
  readonly url: string
  readonly file: string
  child: Child
  /** False from the moment that it is struck until it listens again. */
  isUp: boolean
  /** Whether it has served a paid call since it was started. */
  hasServed: boolean
  /** How often it was started. */
  generation: number
  /** Resolves when it has come back from the last kill; rejects when it does not. */
  starting: Promise<void>
  start(): Promise<void>
}

export interface World {
  readonly chains: Chains
  readonly paidOn: readonly Chain[]
  readonly config: ConfigFile
  readonly gateways: readonly Gateway[]
  readonly postgres: PostgresServer | undefined
  readonly redis: RedisServer | undefined
  readonly api: Api
  /** Paths of the two links. */
  readonly paid: string
  readonly free: string
  payTo(chain: Chain): string
}

/** Atomic units of USDC that a call costs. */
export const PRICE_ATOMIC = 100n

/** Starts everything that a soak needs. Services that can be struck are its own. */
export async function startWorld(
  t: Pick<Test, 'teardown' | 'pass' | 'fail'>,
  options: SoakOptions,
): Promise<World> {
  const { latencyMs, blockMs, store, gateways: count } = options
  const isPostgres = store === 'postgres'
  const postgres = isPostgres ? await startPostgresServer(t) : undefined
  const redis = count > 1 ? await startRedisServer(t) : undefined
  // Slots as long as the real chain's: a block hash has to outlive the recovery.
  const chains = await startChains(t, {
    ...(blockMs > 0 && { evm: { blockTimeMs: blockMs } }),
    solana: { slotMs: 400 },
  })
  for (const { rpc } of chains.both) if (latencyMs > 0) rpc.add('*', { kind: 'delay', ms: latencyMs })
  const settling = { settleTimeoutMs: 15_000 }
  const config = await writeConfig(t, chains, {
    store: 'sqlite',
    evm: settling,
    solana: settling,
    sections: {
      log: { level: 'info', format: 'json' },
      ...(postgres !== undefined && { storage: { postgres: { url: postgres.url } } }),
      ...(redis !== undefined && { counters: { use: 'redis', url: redis.url } }),
    },
  })
  const gateways: Gateway[] = []
  for (let i = 0; i < count; i++) {
    const { file, url } = i === 0 ? config : await config.beside('second')
    const gateway: Gateway = {
      name: i === 0 ? 'first' : 'second',
      ...{ url, file },
      child: undefined as never,
      isUp: false,
      hasServed: false,
      generation: 0,
      starting: Promise.resolve(),
      async start() {
        // While it was down, any process could take its port.
        gateway.child = await eventually(
          () =>
            startGateway(t, { file }, chains.env).catch((error: Error) => {
              if (!error.message.includes('Another program listens')) throw error
              return undefined
            }),
          60_000,
        )
        gateway.generation++
        gateway.hasServed = false
        gateway.isUp = true
        keepLog(options.logs, `${gateway.name}-${gateway.generation}`, gateway.child)
      },
    }
    gateways.push(gateway)
  }
  const wallets = newSellerWallets(chains)
  const api = await startApi(t)
  const shop = await openStore(config, chains.env, wallets)
  await Promise.all(gateways.map((gateway) => gateway.start()))
  const pathOf = (url: string) => new URL(url).pathname
  return {
    chains,
    paidOn: chains.both.filter(({ name }) => options.chains.includes(name)),
    config,
    gateways,
    postgres,
    redis,
    api,
    paid: pathOf(await shop.addLink({ url: api.url, slug: 'paid', price: '0.0001' })),
    free: pathOf(await shop.addLink({ url: api.url, slug: 'free', price: '0' })),
    payTo: ({ name }) => (name === 'evm' ? wallets.base : wallets.solana),
  }
}

/** Writes what a gateway said to a file once it has ended. */
function keepLog(dir: string | undefined, name: string, child: Child): void {
  if (dir === undefined) return
  mkdirSync(dir, { recursive: true })
  void child.exited.then(({ stdout, stderr }) => writeFileSync(join(dir, `${name}.log`), stdout + stderr))
}
