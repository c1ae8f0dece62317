/** One number that `npm run bench` measures, with the value it must reach and the one it should. */
export interface Stat {
  readonly what: string
  readonly unit: '×' | 'µs' | 'ns' | 'MB' | 'ms' | 's' | '/s' | '%' | 'B' | 'gas'
  readonly better: 'more' | 'less'
  readonly must: number
  readonly aim: number
}

const times = (what: string, must: number, aim: number): Stat => ({
  what,
  unit: '×',
  better: 'more',
  must,
  aim,
})
const least = (what: string, unit: Stat['unit'], must: number, aim: number): Stat => ({
  what,
  unit,
  better: 'less',
  must,
  aim,
})

const perCpuSecond = (what: string, must: number, aim: number): Stat => ({
  what: `${what}, per CPU-second`,
  unit: '/s',
  better: 'more',
  must,
  aim,
})

/** Every figure by its key in the JSON output. `×` figures are ratios of requests per CPU-second in one run. */
export const stats = {
  free1k_vs_http_proxy_3: times('free call, 1 KB, compared with http-proxy-3 with an agent', 2.1, 2.5),
  free1k_vs_fastify_http_proxy: times('free call, 1 KB, compared with @fastify/http-proxy', 1.75, 2.1),
  free1k_vs_nginx: times('free call, 1 KB, compared with nginx with one process', 0.55, 0.65),
  free1k_vs_bare_dispatch: times('free call, 1 KB, compared with a bare undici relay', 1, 1.25),
  free100k_vs_http_proxy_3: times('free call, 100 KB, compared with http-proxy-3 with an agent', 1.4, 1.6),
  free100k_vs_nginx: times('free call, 100 KB, compared with nginx with one process', 0.8, 0.95),
  post10k_vs_http_proxy_3: times('POST of 10 KB, compared with http-proxy-3 with an agent', 1.85, 2.2),
  post10k_vs_nginx: times('POST of 10 KB, compared with nginx with one process', 0.55, 0.65),
  challenge_vs_bare_node_http: times('402, compared with node:http sending the same bytes', 0.9, 0.97),
  challenge_vs_x402_express: times('402, compared with @x402/express', 4, 4.4),
  free1k_vs_library_counters: times('free call, 1 KB, compared with the limits of a library', 0.95, 1.02),
  challenge_vs_library_counters: times('402, compared with the limits of a library', 0.95, 1.02),
  paid_vs_x402_express_viem: times('paid call, compared with @x402/express with viem', 8, 11),
  paid_over_free_us: least(
    'extra CPU of a paid call over a free call, without cryptography and commit',
    'µs',
    30,
    20,
  ),
  paid_real_evm_us: least('paid call with its settlement on an EVM chain, 64 at once', 'µs', 1_200, 600),
  paid_real_solana_us: least('paid call with its settlement on Solana, 64 at once', 'µs', 1_500, 750),
  added_latency_evm_ms: least('paid call settled on an EVM chain with instant blocks, p50', 'ms', 40, 15),
  added_latency_solana_ms: least(
    'paid call settled on Solana with blocks confirmed at once, p50',
    'ms',
    60,
    25,
  ),
  added_latency_evm_far_ms: least(
    'paid call on EVM, node 40 ms away, without two round trips, p50',
    'ms',
    40,
    15,
  ),
  added_latency_solana_far_ms: least(
    'paid call on Solana, node 40 ms away, without two round trips, p50',
    'ms',
    60,
    25,
  ),
  paid_channel_us: least('call paid by a channel, 64 channels at once', 'µs', 200, 125),
  channel_calls_per_s: {
    what: 'calls paid by 64 channels, on one CPU',
    unit: '/s',
    better: 'more',
    must: 5_000,
    aim: 8_000,
  },
  channel_one_p50_ms: least("call paid by one channel alone, over the seller's own time, p50", 'ms', 1, 0.5),
  channel_vs_x402_express: times('call paid by a channel, compared with @x402/express', 10, 20),
  batch_payments_per_s: {
    what: 'payments settled by one key, a block every 2 s',
    unit: '/s',
    better: 'more',
    must: 200,
    aim: 1_000,
  },
  batch_gas_per_payment: least('gas of one of these payments', 'gas', 60_000, 52_000),
  wrap1k_vs_none: times('wrapped response, 1 KB, compared with a raw response', 0.97, 0.99),
  wrap100k_vs_none: times('wrapped response, 100 KB, compared with a raw response', 0.88, 0.95),
  plugin_sync_ns: least('one more synchronous plugin', 'ns', 8, 5),
  plugin_async_ns: least('one more asynchronous plugin', 'ns', 90, 70),
  claims_per_s: {
    what: 'durable claims in SQLite, 64 at once',
    unit: '/s',
    better: 'more',
    must: 10_000,
    aim: 30_000,
  },
  pg_claims_per_s: {
    what: 'claims in PostgreSQL, 256 at once',
    unit: '/s',
    better: 'more',
    must: 8_000,
    aim: 20_000,
  },
  claims_group_vs_single: times('durable claims in groups, compared with one commit each', 4, 5.5),
  discover_p50_ms: least('a search among 100,000 links, uncached, p50', 'ms', 20, 5),
  vault_address_1: perCpuSecond('vault: an address, one request at a time', 7_500, 12_000),
  vault_address_16: perCpuSecond('vault: an address, 16 at once', 7_500, 12_000),
  vault_read_1: perCpuSecond('vault: a value, one request at a time', 3_000, 6_000),
  vault_read_16: perCpuSecond('vault: a value, 16 at once', 3_000, 6_000),
  vault_sign_1: perCpuSecond(
    'vault: a transaction that a rule allows, written to disk, one at a time',
    700,
    1_500,
  ),
  vault_sign_16: perCpuSecond(
    'vault: a transaction that a rule allows, written to disk, 16 at once',
    700,
    1_500,
  ),
  vault_relay_1: perCpuSecond('vault: an address through relay and proxy, one at a time', 300, 600),
  workers2_vs_1: times('two workers, compared with one', 0.95, 1),
  idle_memory_mb: least('idle memory of `tollgate start`', 'MB', 165, 100),
  start_ms: least('from start to listening', 'ms', 1_000, 500),
} as const satisfies Readonly<Record<string, Stat>>

/** What `--scale` measures on a database with 100,000 links and a million sales (with `--quick`, 5,000 and 20,000). */
export const scaleStats = {
  scale_start_ms: least('from start to ready', 'ms', 1_500, 1_000),
  scale_reload_ms: least('longest wait of a free call during a reload', 'ms', 30, 10),
  scale_memory_mb: least('memory after start', 'MB', 250, 200),
  scale_memory_read_mb: least('memory after all reads', 'MB', 400, 300),
  scale_idle_percent: least('CPU while idle with health checks, share of a core', '%', 5, 1),
  scale_free_vs_ten: least('free call of a random link, compared with ten links', '×', 1.25, 1.1),
  scale_free_one_seller_vs_ten: least(
    'free call of a random link of one seller, compared with ten links',
    '×',
    1.25,
    1.1,
  ),
  scale_relay_vs_ten: least('bare undici relay to as many sellers, compared with ten', '×', 1.25, 1.1),
  scale_402_vs_ten: least('402 of a random link, compared with ten links', '×', 1.25, 1.1),
  ...readStats('links', 'links of a store, a page of 100', 20, 5),
  ...readStats('store', 'a store, public', 20, 5),
  ...readStats('stats', 'stats of 30 days', 10, 5),
  ...readStats('stats_all', 'stats of all time', 10, 5),
  ...readStats('timeseries', 'stats by day', 10, 5),
  ...readStats('attention', 'items that need the seller', 20, 5),
  ...readStats('purchases', 'purchases of a store, a page of 100', 20, 5),
  ...readStats('discover', 'discovery, a search', 20, 5),
  ...readStats('reviews', 'reviews of a store', 20, 5),
  ...readStats('sessions', 'payment sessions of a store, a page of 100', 20, 5),
  ...readStats('deliveries', "a webhook's deliveries, a page of 100", 20, 5),
  ...readStats('operator', "the operator's stores", 20, 5),
  scale_worst_free_ms: least('slowest free call while all pages are read', 'ms', 20, 10),
  scale_worst_seller_ms: least('slowest call to the seller without a gateway in the same time', 'ms', 20, 10),
  scale_doctor_s: least('doctor over all days, without the chain', 's', 60, 30),
  scale_doctor_again_s: least('doctor again, over changed days and the last 30 days', 's', 15, 8),
  scale_backup_s: least('backup', 's', 60, 30),
  scale_bytes_a_sale: least('on disk for each sale', 'B', 2_200, 1_755),
  scale_claims_per_s: { what: 'claims', unit: '/s', better: 'more', must: 8_000, aim: 20_000 },
  scale_claims_us: least('CPU of a claim', 'µs', 40, 20),
  scale_paid_per_s: { what: 'paid calls, 64 at once', unit: '/s', better: 'more', must: 1_000, aim: 3_000 },
  scale_paid_us: least("gateway's CPU of a paid call", 'µs', 400, 250),
  scale_paid_database_us: least("database's CPU of a paid call", 'µs', 500, 250),
  scale_move_s: least('move to PostgreSQL', 's', 300, 120),
  scale_steps_us: least('durable steps of a payment, 32 at once', 'µs', 175, 125),
  scale_steps_vs_empty: least('durable steps of a payment, compared with an empty database', '×', 1.15, 1.05),
} as const satisfies Readonly<Record<string, Stat>>

export type StatKey = keyof typeof stats | keyof typeof scaleStats

export const statKeys = Object.keys(stats) as readonly StatKey[]
export const scaleKeys = Object.keys(scaleStats) as readonly StatKey[]

/** What `--grow` shows for databases of several sizes. */
export const growthKeys: readonly StatKey[] = [
  ...(['scale_claims_per_s', 'scale_claims_us', 'scale_paid_per_s', 'scale_paid_us'] as const),
  ...(['scale_paid_database_us', 'scale_start_ms', 'scale_memory_mb', 'scale_memory_read_mb'] as const),
  ...scaleKeys.filter((key) => key.endsWith('_p50_ms')),
  ...(['scale_bytes_a_sale', 'scale_move_s', 'scale_doctor_s'] as const),
]

function readStats<Name extends string>(name: Name, what: string, must: number, aim: number) {
  return {
    [`scale_${name}_p50_ms`]: least(`${what}, p50`, 'ms', must, aim),
    [`scale_${name}_p99_ms`]: least(`${what}, p99`, 'ms', must, aim),
  } as Record<`scale_${Name}_p50_ms` | `scale_${Name}_p99_ms`, Stat>
}

/** What was measured; null if a peer is not installed. */
export type Measured = Partial<Record<StatKey, number | null>>
