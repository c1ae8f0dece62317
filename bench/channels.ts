import { join } from 'node:path'
import { x402Client } from '@x402/core/client'
import { BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/client'
import { wrapFetchWithPayment } from '@x402/fetch'
import { createPublicClient, http } from 'viem'
import { privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { type LocalEvm, startLocalEvm } from '../localnet/evm/startLocalEvm.ts'
import type { Bench, BenchContext } from './bench.ts'
import { connections, type LoadResult, runLoad } from './harness/load.ts'
import { median } from './harness/median.ts'
import type { Server } from './harness/servers.ts'
import { ChannelPayer, offerOf, writeVouchers } from './harness/vouchers.ts'
import { network } from './servers/offer.ts'
import type { Measured } from './stats.ts'

const price = '0.01'
const priceAtomic = 10_000n
/** Covers all calls of a channel in a run. */
const deposit = '10000'
const depositAtomic = 10_000_000_000n
const settlingKey = `0x${'1'.repeat(64)}` as const
const path = '/api/link/demo/channel'
/** Rounds that are not counted. The cost of a call falls over the first 60,000. */
const WARM_UPS = 4
/** No round takes as long, in seconds: it ends with its last payment. */
const MAX_SECONDS = 300

interface Sold {
  readonly name: string
  readonly server: Server
  readonly path: string
  readonly payers: readonly ChannelPayer[]
  readonly calls: number
}

/**
 * Calls that are paid by channels: `tollgate start` with a local chain, 64 channels with a deposit each, vouchers that were signed
 * before. The peer has the channel server of its package, with storage in memory and a facilitator in its process, and calls no seller.
 */
export const channels: Bench = {
  keys: ['paid_channel_us', 'channel_calls_per_s', 'channel_one_p50_ms', 'channel_vs_x402_express'],
  async run(context) {
    const evm = await startLocalEvm()
    try {
      return await measureChannels(context, evm)
    } finally {
      await evm.close()
    }
  },
}

async function measureChannels(context: BenchContext, evm: LocalEvm): Promise<Measured> {
  const { servers, wants, progress, isQuick } = context
  await evm.fundEth(privateKeyToAddress(settlingKey), 10n ** 18n)
  const { port: upstreamPort } = await servers.upstream()
  const rpcPort = Number(new URL(evm.rpcUrl).port)
  const links = [{ slug: 'channel', path: '/1k', price }]
  const gateway = await servers.gateway({ upstreamPort, rpcPort, links, minDeposit: deposit })
  const url = `http://127.0.0.1:${gateway.port}${path}`
  const payers = await openChannels(evm, url)
  const calls = isQuick ? 10_000 : 20_000
  const sold: Sold[] = [{ name: 'tollgate, channels', server: gateway, path, payers, calls }]
  if (wants('channel_vs_x402_express')) {
    const server = await servers.start('x402ExpressChannels.js')
    const peers = Array.from(payers, () => new ChannelPayer())
    sold.push({ name: '@x402/express', server, path: '/paid', payers: peers, calls: calls / 10 })
  }
  const rounds = new Map(sold.map(({ name }) => [name, [] as Round[]]))
  const warmUps = isQuick ? 1 : WARM_UPS
  for (let n = 0; n < warmUps + context.rounds; n++)
    for (const one of sold) {
      const round = await runRound(context, one, connections)
      if (n >= warmUps) rounds.get(one.name)!.push(round)
    }
  progress('paid by a channel:')
  for (const [name, measured] of rounds) progress(`  ${name.padEnd(24)} ${words(measured)}`)
  const [ours, theirs] = [...rounds.values()] as [Round[], Round[]?]
  const cpuUs = middle(ours, 'cpuUs')
  const measured: Measured = {
    paid_channel_us: cpuUs,
    channel_calls_per_s: middle(ours, 'callsPerSecond'),
    channel_vs_x402_express: theirs === undefined ? null : middle(theirs, 'cpuUs') / cpuUs,
  }
  if (wants('channel_one_p50_ms')) {
    const one = { ...sold[0]!, payers: payers.slice(0, 1), calls: isQuick ? 1_000 : 3_000 }
    const direct = { path: '/1k', connections: 1, isAwake: true } as const
    const added: number[] = []
    for (let n = 0; n < context.rounds; n++) {
      const seller = await runLoad(context.machine, upstreamPort, direct, 1)
      added.push((await runRound(context, one, 1)).p50Ms - seller.p50Ms!)
    }
    measured.channel_one_p50_ms = median(added)
    progress(`  one channel alone: p50 ${median(added).toFixed(2)} ms over the seller's own time`)
  }
  return measured
}

interface Round {
  readonly cpuUs: number
  readonly callsPerSecond: number
  readonly p50Ms: number
}

async function runRound(
  { machine, servers }: BenchContext,
  { name, server, path, payers, calls }: Sold,
  atOnce: number,
): Promise<Round> {
  const paymentFile = join(servers.folder(), 'vouchers')
  writeVouchers(paymentFile, payers, await offerOf(`http://127.0.0.1:${server.port}${path}`), calls)
  const before = server.cpu()
  const load = {
    path,
    paymentFile,
    connections: atOnce,
    host: `127.0.0.1:${server.port}`,
    isAwake: true,
  } as const
  const result = await runLoad(machine, server.port, load, MAX_SECONDS)
  const cpu = server.cpu() - before
  assertSold(name, result, calls)
  const { requests, seconds, p50Ms } = result
  return { cpuUs: (cpu / requests) * 1e6, callsPerSecond: requests / seconds, p50Ms: p50Ms! }
}

function assertSold(
  name: string,
  { requests, refused, broken, firstRefusal }: LoadResult,
  calls: number,
): void {
  if (requests === calls && refused === 0 && broken === 0) return
  throw new Error(
    `${name}: expected ${calls} paid calls, got ${requests}, ${refused} refused, ${broken} broken. The first refusal: ${firstRefusal}`,
  )
}

/** Opens a channel for each connection: the official client pays one call, with a deposit. */
async function openChannels(evm: LocalEvm, url: string): Promise<ChannelPayer[]> {
  const reader = createPublicClient({ chain: baseSepolia, transport: http(evm.rpcUrl) })
  const payers = Array.from({ length: connections }, () => new ChannelPayer())
  for (const payer of payers) {
    const account = privateKeyToAccount(`0x${payer.key.toString('hex')}`)
    await evm.mintUsdc(account.address, depositAtomic)
    const signer = {
      address: account.address,
      signTypedData: (data: unknown) => account.signTypedData(data as never),
      readContract: (call: unknown) => reader.readContract(call as never),
    }
    const scheme = new BatchSettlementEvmScheme(signer)
    const client = x402Client.fromConfig({ schemes: [{ network, client: scheme }], spendControls: false })
    const response = await wrapFetchWithPayment(fetch, client)(url)
    const text = await response.text()
    if (response.status !== 200) throw new Error(`A channel was not opened: ${response.status} ${text}`)
    payer.paid(priceAtomic)
  }
  return payers
}

const middle = (rounds: readonly Round[], key: keyof Round): number =>
  median(rounds.map((round) => round[key]))

const words = (rounds: readonly Round[]): string =>
  `${middle(rounds, 'cpuUs').toFixed(1)} µs of CPU each, ${middle(rounds, 'callsPerSecond').toFixed(0)} a second, ` +
  `answered after ${middle(rounds, 'p50Ms').toFixed(2)} ms (p50)`
