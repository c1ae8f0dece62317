import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, BenchContext } from './bench.ts'
import { type FigureKey, type Measured, scaleKeys } from './figures.ts'
import { median } from './harness/median.ts'
import { type Candidate, costOf, measure } from './harness/rounds.ts'
import { type Filled, fillStore, UPSTREAM_PORT } from './scale/fillStore.ts'
import { createReader, type ReadName, readNames, timesOf } from './scale/reads.ts'
import { createSeeded } from './scale/seeded.ts'
import { runShipped, type Shipped, startShipped } from './scale/shipped.ts'

const CALL_EVERY_MS = 5
/** So many links are asked in turn, against as many as there are. */
const FEW = 10

interface Calls {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/**
 * A gateway of much data, by the shipped command: a store is filled as a year of business would, and what does not depend on
 * how much there is should not. Figures of time are by the clock, so that a busy machine shows in them.
 */
export const scale: Bench = {
  keys: scaleKeys,
  async run(context) {
    const { servers, isQuick, progress, rounds, filledFolder } = context
    const { port: upstreamPort } = await servers.upstream({
      host: '0.0.0.0',
      ...(filledFolder !== undefined && { port: UPSTREAM_PORT }),
    })
    const { port: rpcPort } = await servers.start('chainNode.ts')
    const folder = filledFolder ?? servers.folder()
    const [links, sales] = isQuick ? [5_000, 20_000] : [100_000, 1_000_000]
    if (filledFolder === undefined) await fillStore({ folder, links, sales, upstreamPort, progress })
    const filled = JSON.parse(readFileSync(join(folder, 'filled.json'), 'utf8')) as Filled
    const env = { RPC_URL: `http://127.0.0.1:${rpcPort}` }
    const port = await servers.freePort()
    const measured: Measured = {}
    const note = (key: FigureKey, value: number) => {
      measured[key] = value
      progress(`  ${key} ${value.toPrecision(3)}`)
    }

    // Brings the file up to date, and what is compiled and cached to where it is after a restart.
    await (await startShipped(folder, port, env)).stop()
    const starts: number[] = []
    for (let round = 1; round < (isQuick ? 1 : rounds); round++) {
      const once = await startShipped(folder, port, env)
      starts.push(once.readyMs)
      await once.stop()
    }
    const gateway = await startShipped(folder, port, env)
    try {
      note('scale_start_ms', median([...starts, gateway.readyMs]))
      await whileRunning(context, gateway, filled, note)
    } finally {
      await gateway.stop()
    }
    const unprobed = await startShipped(folder, port, { ...env, PROBE: 'false' })
    try {
      await randomLinks(context, unprobed, filled, note)
    } finally {
      await unprobed.stop()
    }
    const config = ['--config', join(folder, 'tollgate.yaml')]
    note('scale_doctor_s', (await runShipped(['doctor', '--no-chain', ...config], env)) / 1_000)
    const copy = join(servers.folder(), 'copy.db')
    note('scale_backup_s', (await runShipped(['backup', ...config, copy], env)) / 1_000)
    rmSync(copy)
    const file = join(folder, 'tollgate.db')
    note('scale_bytes_a_sale', bytesOfSales(file) / filled.sales)
    const steps = stepsOf(file, isQuick ? 4 : 16)
    note('scale_steps_vs_empty', steps[file]! / steps['empty']!)
    return measured
  },
}

/** What is seen of a gateway that has just started: what it holds and does by itself, and how it answers. */
async function whileRunning(
  { servers, isQuick, progress }: BenchContext,
  gateway: Shipped,
  filled: Filled,
  note: (key: FigureKey, value: number) => void,
): Promise<void> {
  const { port } = gateway
  const calls = (seconds: number) =>
    servers.job<Calls>(
      'steadyCalls.ts',
      { port, path: filled.free[0], everyMs: CALL_EVERY_MS, seconds },
      'unpinned',
    )
  await sleep(isQuick ? 2_000 : 5_000)
  note('scale_memory_mb', gateway.memoryMb())
  const idleS = isQuick ? 3 : 10
  const before = gateway.cpu()
  await sleep(idleS * 1_000)
  note('scale_idle_percent', ((gateway.cpu() - before) / idleS) * 100)

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

  const reader = await createReader(port, filled)
  for (const name of readNames) {
    const { firstMs, p50Ms, p99Ms } = await timesOf(reader, name, isQuick ? 10 : 100)
    progress(`  ${name}: ${firstMs.toFixed(1)} ms the first time`)
    note(`scale_${name}_p50_ms`, p50Ms)
    note(`scale_${name}_p99_ms`, p99Ms)
  }
  let isOver = false
  const seen = calls(isQuick ? 4 : 15).finally(() => {
    isOver = true
  })
  const readAll = async (names: readonly ReadName[]) => {
    while (!isOver) for (const name of names) await reader.read(name)
  }
  await Promise.all([readAll(readNames), readAll(readNames.toReversed())])
  note('scale_worst_free_ms', (await seen).maxMs)
  note('scale_memory_read_mb', gateway.memoryMb())
  reader.close()
}

/** Free calls and 402s of as many links as there are, warm, against those of ten; without health checks in between. */
async function randomLinks(
  context: BenchContext,
  gateway: Shipped,
  { free, paid }: Filled,
  note: (key: FigureKey, value: number) => void,
): Promise<void> {
  const server = { ...gateway, pid: 0, facts: {} }
  const candidates: Candidate[] = []
  for (const [what, expect, paths] of [
    ['free', 'success', free],
    ['402', 'refusal', paid],
  ] as const) {
    for (const [name, some] of [
      ['ten', paths.slice(0, FEW)],
      ['random', shuffled(paths)],
    ] as const) {
      const pathsFile = join(context.servers.folder(), 'paths')
      writeFileSync(pathsFile, `${some.join('\n')}\n`)
      candidates.push({ name: `${what}, ${name}`, server, load: () => ({ path: '/', pathsFile }), expect })
    }
  }
  context.progress('calls of random links:')
  const costs = await measure(candidates, context)
  note('scale_free_vs_ten', costOf(costs, 'free, random') / costOf(costs, 'free, ten'))
  note('scale_402_vs_ten', costOf(costs, '402, random') / costOf(costs, '402, ten'))
}

/** The pages of the tables that a sale is in, with their indexes. */
function bytesOfSales(file: string): number {
  const database = new DatabaseSync(file, { readOnly: true })
  const { bytes } = database
    .prepare(`SELECT sum(pgsize) AS bytes FROM dbstat JOIN sqlite_schema USING (name)
      WHERE tbl_name IN ('payments', 'payment_payloads', 'attempts', 'purchases', 'ledger')`)
    .get()!
  database.close()
  return Number(bytes)
}

/** µs of CPU that the durable steps of a payment take, in an empty store and in this one, in turns. */
function stepsOf(file: string, rounds: number): Readonly<Record<string, number>> {
  const program = new URL('./durableSteps.ts', import.meta.url).pathname
  const args = [program, '--filled', file, '--json', '--rounds', String(rounds)]
  const said = execFileSync(process.execPath, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return JSON.parse(said) as Record<string, number>
}

function shuffled(list: readonly string[]): readonly string[] {
  const { random } = createSeeded(1)
  return list
    .map((one) => [random(), one] as const)
    .sort(([a], [b]) => a - b)
    .map(([, one]) => one)
}
