import { type Load, type LoadResult, runLoad } from './load.ts'
import type { Machine } from './machine.ts'
import { median } from './median.ts'
import type { Server } from './servers.ts'

/** One of those that are compared: a server and what it is asked. */
export interface Candidate {
  readonly name: string
  readonly server: Server
  /** Created for each round, because payments are used up. */
  readonly load: (round: number) => Load | Promise<Load>
  /** The status that every answer must have. */
  readonly expect: 'success' | 'refusal'
}

export interface RoundOptions {
  readonly machine: Machine
  readonly rounds: number
  readonly seconds: number
  /** Most rounds that a candidate is warmed up by, see {@link measure}. */
  readonly warmUps: number
  readonly progress: (line: string) => void
}

/** CPU microseconds of the server per request, by candidate: one value a round. */
export type Costs = ReadonlyMap<string, readonly number[]>

/**
 * Measures candidates in turn, round after round, so that other load on the machine affects all of them
 * equally. The measure is CPU time of the server's process per request, not wall-clock time. Each candidate
 * is warmed up first, until a request costs no less than before: V8 compiles rarely called code late, and
 * that is part of the process.
 */
export async function measure(candidates: readonly Candidate[], options: RoundOptions): Promise<Costs> {
  const costs = new Map<string, number[]>(candidates.map(({ name }) => [name, []]))
  const waits = new Map<string, number[]>(candidates.map(({ name }) => [name, []]))
  for (const candidate of candidates) await warmUp(candidate, options)
  for (let round = 0; round < options.rounds; round++) {
    for (const candidate of candidates) {
      const { cost, p50Ms } = await once(candidate, round, options, options.seconds)
      costs.get(candidate.name)!.push(cost)
      if (p50Ms !== undefined) waits.get(candidate.name)!.push(p50Ms)
    }
  }
  for (const [name, values] of costs) {
    const middle = median(values)
    const spread = ((Math.max(...values) - Math.min(...values)) / middle) * 100
    options.progress(
      `  ${name.padEnd(24)} ${(1e6 / middle).toFixed(0).padStart(7)} requests per CPU-second, ` +
        `${middle.toFixed(1)} µs each (spread ${spread.toFixed(0)} %)${waitOf(waits.get(name)!)}`,
    )
  }
  return costs
}

/** A round that is cheaper by less is as warm as the one before. */
const WARMER = 0.95

async function warmUp(candidate: Candidate, options: RoundOptions): Promise<void> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 1; round <= options.warmUps; round++) {
    const { cost } = await once(candidate, -round, options, options.seconds)
    if (cost > least * WARMER) return
    least = cost
  }
}

const waitOf = (p50Ms: readonly number[]): string =>
  p50Ms.length === 0 ? '' : `, answered after ${median(p50Ms).toFixed(2)} ms (p50)`

async function once(
  candidate: Candidate,
  round: number,
  { machine }: RoundOptions,
  seconds: number,
): Promise<{ readonly cost: number; readonly p50Ms: number | undefined }> {
  const load = await candidate.load(round)
  const before = candidate.server.cpu()
  const result = await runLoad(machine, candidate.server.port, load, seconds)
  const cpu = candidate.server.cpu() - before
  assertResponses(candidate, result)
  return { cost: (cpu / result.requests) * 1e6, p50Ms: result.p50Ms }
}

/** A server that refuses is fast: what is measured must be the answer that was meant. */
function assertResponses({ name, expect }: Candidate, { requests, refused, broken }: LoadResult): void {
  const wrong = expect === 'success' ? refused : requests - refused
  if (requests > 0 && wrong === 0 && broken === 0) return
  throw new Error(
    `${name}: of ${requests} answers ${wrong} were no ${expect}, ${broken} requests got none. Nothing was measured.`,
  )
}

/** How much more `ours` does per CPU-second than `theirs`, by the medians of their rounds. */
export const ratio = (costs: Costs, ours: string, theirs: string): number =>
  costOf(costs, theirs) / costOf(costs, ours)

/** The median cost of a candidate, in CPU microseconds per request. */
export const costOf = (costs: Costs, name: string): number => median(costs.get(name)!)

/**
 * How much more expensive one candidate is than the one that ran just before it. Other load affects both
 * within a round.
 */
export const moreExpensive = (costs: Costs, one: string, other: string): number =>
  median(costs.get(one)!.map((cost, round) => cost / costs.get(other)![round]!))
