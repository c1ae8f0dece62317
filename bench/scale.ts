import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, BenchContext } from './bench.ts'
import { runLoad } from './harness/load.ts'
import { pinned, serverCpu } from './harness/machine.ts'
import { median } from './harness/median.ts'
import { type Candidate, measure, moreExpensive } from './harness/rounds.ts'
import type { Server } from './harness/servers.ts'
import { runShipped, type Shipped, startShipped } from './harness/shipped.ts'
import { type Filled, fillStore, hostOf, UPSTREAM_PORT } from './scale/fillStore.ts'
import { createReader, type ReadName, readNames, timesOf } from './scale/reads.ts'
import { createSeeded } from './scale/seeded.ts'
import { claimsIn, paidCallsIn } from './scale/selling.ts'
import { inFile, inPostgres, type Place, postgresUrl, type StoreName } from './scale/target.ts'
import { type Measured, type StatKey, scaleKeys } from './stats.ts'

const CALL_EVERY_MS = 5
/** So many links are asked in turn, against as many as there are. */
const FEW = 10
/** All of them were called after so long, even where each has to be read and compiled by a busy machine. */
const ALL_ONCE_S = 300

interface Calls {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

type Note = (key: StatKey, value: number | null) => void

/**
 * A gateway of much data, by the shipped command: a store is filled as a year of business would, and what does not depend on
 * how much there is should not. Figures of time are by the clock, so that a busy machine shows in them.
 */
export const scale: Bench = {
  keys: scaleKeys,
  async run(context) {
    const { isQuick, filledFolder, storeName } = context
    const size = isQuick ? { links: 5_000, sales: 20_000 } : { links: 100_000, sales: 1_000_000 }
    const { of, filled, env } = await filledFor(context, size, filledFolder)
    const place = await of(storeName ?? 'sqlite')
    try {
      return await measureIn(place, filled, env, context)
    } finally {
      await place.close()
    }
  },
}

/** A database that is filled once, for every measurement on this kind of database. */
export async function filledFor(
  { servers, progress }: BenchContext,
  size: { readonly links: number; readonly sales: number },
  reusedFolder?: string,
) {
  const isKept = reusedFolder !== undefined
  const { port: upstreamPort } = await servers.upstream({
    host: '0.0.0.0',
    ...(isKept && { port: UPSTREAM_PORT }),
  })
  const { port: rpcPort } = await servers.start('chainNode.ts')
  const folder = reusedFolder ?? servers.folder()
  if (!existsSync(join(folder, 'filled.json'))) await fillStore({ ...size, folder, upstreamPort, progress })
  const filled = JSON.parse(readFileSync(join(folder, 'filled.json'), 'utf8')) as Filled
  const env = { RPC_URL: `http://127.0.0.1:${rpcPort}`, BENCH_DATABASE_URL: postgresUrl }
  return {
    env,
    filled: { ...filled, upstreamPort },
    of: (store: StoreName): Promise<Place> =>
      store === 'sqlite' ? inFile(folder) : inPostgres(folder, isKept, env, progress),
  }
}

/** Those of the figures that are wanted of a gateway on a filled store. */
export async function measureIn(
  place: Place,
  filled: Filled & { readonly upstreamPort: number },
  env: NodeJS.ProcessEnv,
  context: BenchContext,
): Promise<Measured> {
  const { servers, isQuick, progress, rounds, wants } = context
  const wantsAny = (...keys: readonly StatKey[]) => keys.some(wants)
  const port = await servers.freePort()
  const measured: Measured = {}
  const note: Note = (key, value) => {
    measured[key] = value
    progress(`  ${key} ${value === null ? '-' : value.toPrecision(3)}`)
  }
  const start = () => startShipped(place.config, port, env)
  note('scale_move_s', place.movedS)

  // Brings the tables up to date, and what is compiled and cached to where it is after a restart.
  await (await start()).stop()
  const starts: number[] = []
  for (let round = 1; round < (isQuick ? 1 : rounds); round++) {
    const once = await start()
    starts.push(once.readyMs)
    await once.stop()
  }
  const gateway = await start()
  try {
    note('scale_start_ms', median([...starts, gateway.readyMs]))
    await whileRunning(context, gateway, filled, note)
  } finally {
    await gateway.stop()
  }
  if (wantsAny('scale_free_vs_ten', 'scale_free_one_seller_vs_ten', 'scale_402_vs_ten')) {
    const onOneCpu = (command: readonly string[]) => pinned(context.machine, serverCpu, command)
    const unprobed = await startShipped(place.config, port, { ...env, PROBE: 'false' }, onOneCpu)
    try {
      await randomLinks(context, unprobed, filled, note)
    } finally {
      await unprobed.stop()
    }
  }
  const config = ['--config', place.config]
  for (const key of ['scale_doctor_s', 'scale_doctor_again_s'] as const)
    if (wants(key)) note(key, (await runShipped(['doctor', '--no-chain', ...config], env)) / 1_000)
  // PostgreSQL is backed up by its own tools.
  if (wants('scale_backup_s') && place.store === 'sqlite') {
    const copy = join(servers.folder(), 'copy.db')
    note('scale_backup_s', (await runShipped(['backup', ...config, copy], env)) / 1_000)
    rmSync(copy)
  }
  if (wants('scale_bytes_a_sale') && filled.sales > 0)
    note('scale_bytes_a_sale', (await place.bytesOfSales()) / filled.sales)
  if (wantsAny('scale_steps_us', 'scale_steps_vs_empty') && 'dbPath' in place.at) {
    const { dbPath } = place.at
    const steps = stepsOf(dbPath, isQuick ? 4 : 16)
    note('scale_steps_us', steps[dbPath]!)
    note('scale_steps_vs_empty', steps[dbPath]! / steps['empty']!)
  }
  if (wantsAny('scale_claims_per_s', 'scale_claims_us')) {
    const { perSecond, cpuUs } = await claimsIn(place, context)
    note('scale_claims_per_s', perSecond)
    note('scale_claims_us', cpuUs)
  }
  if (wantsAny('scale_paid_per_s', 'scale_paid_us', 'scale_paid_database_us')) {
    const { perSecond, cpuUs, databaseUs } = await paidCallsIn(place, filled.upstreamPort, context)
    note('scale_paid_per_s', perSecond)
    note('scale_paid_us', cpuUs)
    note('scale_paid_database_us', databaseUs)
  }
  return measured
}

/** What is seen of a gateway that has just started: what it holds and does by itself, and how it answers. */
async function whileRunning(
  { servers, isQuick, progress, wants }: BenchContext,
  gateway: Shipped,
  filled: Filled & { readonly upstreamPort: number },
  note: Note,
): Promise<void> {
  const { port } = gateway
  const callsOf = (port: number, path: string, seconds: number) =>
    servers.job<Calls>('steadyCalls.ts', { port, path, everyMs: CALL_EVERY_MS, seconds }, 'unpinned')
  const calls = (seconds: number) => callsOf(port, filled.free[0]!, seconds)
  await sleep(isQuick ? 2_000 : 5_000)
  note('scale_memory_mb', gateway.memoryMb())
  if (wants('scale_idle_percent')) {
    const idleS = isQuick ? 3 : 10
    const before = gateway.cpu()
    await sleep(idleS * 1_000)
    note('scale_idle_percent', ((gateway.cpu() - before) / idleS) * 100)
  }
  if (wants('scale_reload_ms')) {
    const undisturbed = await calls(isQuick ? 2 : 5)
    progress(
      `  nothing else asked: free calls p99 ${undisturbed.p99Ms.toFixed(1)} ms, worst ${undisturbed.maxMs.toFixed(1)} ms`,
    )
    const gaps: number[] = []
    for (let n = 0; n < (isQuick ? 1 : 3); n++) {
      const seen = calls(isQuick ? 4 : 10)
      await sleep(1_500)
      gateway.signal('SIGHUP')
      gaps.push((await seen).maxMs)
    }
    note('scale_reload_ms', median(gaps))
  }

  const reader = await createReader(port, filled)
  for (const name of readNames.filter((one) => wants(`scale_${one}_p50_ms`))) {
    const { firstMs, p50Ms, p99Ms } = await timesOf(reader, name, isQuick ? 10 : 100)
    progress(`  ${name}: ${firstMs.toFixed(1)} ms the first time`)
    note(`scale_${name}_p50_ms`, p50Ms)
    note(`scale_${name}_p99_ms`, p99Ms)
  }
  if (wants('scale_worst_free_ms')) {
    let isOver = false
    const seconds = isQuick ? 4 : 15
    // The seller by itself as well: what a call waits for a CPU of this machine is in both.
    const direct = callsOf(filled.upstreamPort, '/1k', seconds)
    const seen = calls(seconds).finally(() => {
      isOver = true
    })
    const readAll = async (names: readonly ReadName[]) => {
      while (!isOver) for (const name of names) await reader.read(name)
    }
    await Promise.all([readAll(readNames), readAll(readNames.toReversed())])
    note('scale_worst_free_ms', (await seen).maxMs)
    note('scale_worst_seller_ms', (await direct).maxMs)
  }
  note('scale_memory_read_mb', gateway.memoryMb())
  reader.close()
}

/** Free calls and 402s of as many links as there are, warm, against those of ten; without health checks in between. */
async function randomLinks(
  context: BenchContext,
  gateway: Server,
  { free, paid, upstreamPort }: Filled & { readonly upstreamPort: number },
  note: Note,
): Promise<void> {
  const candidates: Candidate[] = []
  async function add(name: string, server: Server, expect: Candidate['expect'], paths: readonly string[]) {
    const pathsFile = join(context.servers.folder(), 'paths')
    writeFileSync(pathsFile, `${paths.join('\n')}\n`)
    await runLoad(context.machine, server.port, { path: '/', pathsFile, isOnce: true }, ALL_ONCE_S)
    candidates.push({ name, server, expect, load: () => ({ path: '/', pathsFile, isAwake: true }) })
  }
  context.progress('calls of random links:')
  for (const [what, expect, paths] of [
    ['free', 'success', free],
    ['402', 'refusal', paid],
  ] as const) {
    await add(`${what}, ten`, gateway, expect, paths.slice(0, FEW))
    await add(`${what}, random`, gateway, expect, shuffled(paths))
  }
  // The ten are of the first store, which has the most links: these differ from them by their number alone, and not by whom they call.
  const ofOneSeller = free.filter((path) => sellerOf(path) === sellerOf(free[0]!))
  await add('free, one seller', gateway, 'success', shuffled(ofOneSeller))
  // What calling as many sellers in the place of one costs without a gateway.
  const relay = await context.servers.start('bareDispatch.ts', { upstreamPort, byHost: true })
  const direct = atTheSellers(free)
  await add('relay, ten', relay, 'success', direct.slice(0, FEW))
  await add('relay, random', relay, 'success', shuffled(direct))
  // Many short ones: what else the machine does meets both alike.
  const costs = await measure(candidates, { ...context, rounds: 3 * context.rounds, seconds: 1 })
  note('scale_free_vs_ten', moreExpensive(costs, 'free, random', 'free, ten'))
  note('scale_free_one_seller_vs_ten', moreExpensive(costs, 'free, one seller', 'free, ten'))
  note('scale_402_vs_ten', moreExpensive(costs, '402, random', '402, ten'))
  note('scale_relay_vs_ten', moreExpensive(costs, 'relay, random', 'relay, ten'))
}

const sellerOf = (path: string): string => path.split('/')[3]!

/** Of the paths of links those at their sellers' hosts, as a relay takes them: as many sellers, each with as many links. */
function atTheSellers(paths: readonly string[]): readonly string[] {
  const hosts = new Map<string, string>()
  return paths.map((path, i) => {
    const seller = sellerOf(path)
    let host = hosts.get(seller)
    if (host === undefined) hosts.set(seller, (host = hostOf(hosts.size)))
    return `/${host}/1k?link=${i}`
  })
}

/** µs of CPU that the durable steps of a payment take, in an empty store and in this one, in turns. */
function stepsOf(file: string, rounds: number): Readonly<Record<string, number>> {
  const program = new URL('./durableSteps.ts', import.meta.url).pathname
  const args = [program, '--filled', file, '--json', '--rounds', String(rounds)]
  const printed = execFileSync(process.execPath, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return JSON.parse(printed) as Record<string, number>
}

function shuffled(list: readonly string[]): readonly string[] {
  const { random } = createSeeded(1)
  return list
    .map((one) => [random(), one] as const)
    .sort(([a], [b]) => a - b)
    .map(([, one]) => one)
}
