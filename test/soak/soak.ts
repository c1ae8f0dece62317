import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { eventually } from '../e2e/helpers/eventually.ts'
import { createRandom } from '../simulator/random.ts'
import { type Judgement, judge } from './judge.ts'
import { type Load, type LoadResponse, prepareLoad } from './load.ts'
import type { SoakOptions } from './options.ts'
import { type StrikeName, type Struck, strikeNames, strikes } from './strikes.ts'
import { startWorld, type World } from './world.ts'

/** A payment that was at a gateway when that was struck is answered by the other within this. */
const ANSWERED_MS = 30_000
const AT_ONCE = 100
const PROGRESS_MS = 5_000
/**
 * What a gateway may answer a paid call that it cannot serve now; anything else of 500 and more is a mistake of its own. The
 * seller is this process: where it has no time, it is late, and nothing is charged.
 */
const refusals = new Set([
  '503 store_unavailable',
  '503 settlement_pending',
  '503 settlement_unavailable',
  '504 upstream_timeout',
])

export interface SoakReport extends Judgement {
  readonly seconds: number
  readonly struck: readonly Struck[]
  /** What came later than promised: of a machine that can't keep up it says nothing. */
  readonly late: readonly string[]
  /** Of calls that were open when something came back: the longest time from then to the answer. */
  readonly openAtReturnMs: number
  /** Of payments that were at a gateway when it was struck: how many, and how long from the last strike until their answer. */
  readonly atStruck: { readonly count: number; readonly medianMs: number; readonly longestMs: number }
  readonly free: { readonly requests: number; readonly longestMs: number }
  /** What presented payments heard, and how often. */
  readonly responses: Readonly<Record<string, number>>
}

/**
 * Two gateways under load, and what befalls them.
 *
 * @param say is told every few seconds how far it is
 */
export async function soak(
  t: Pick<Test, 'teardown' | 'pass' | 'fail'>,
  options: SoakOptions,
  say: (text: string) => void,
): Promise<SoakReport> {
  const random = createRandom(options.seed)
  const world = await startWorld(t, options)
  const load = await prepareLoad(world, options, random)
  const beganMs = performance.now()
  const misses: string[] = []
  for (let i = 0; i < options.hundreds; i++) {
    misses.push(...(await hundred(world, load)))
    if (i % 20 === 19) say(`${i + 1} payments of ${options.hundreds}, each ${AT_ONCE} times at once`)
  }

  const due = shuffled(
    strikeNames.flatMap((name) => Array.from({ length: options.strikes[name] ?? 0 }, () => name)),
    random,
  )
  const struck: Struck[] = []
  const progress = setInterval(() => say(soFar(beganMs, due.length, struck, load)), PROGRESS_MS)
  try {
    load.begin()
    for (const name of due) {
      await sleep(random() * options.pauseMs)
      if (name !== 'kill') await allBack(world)
      const one = { name, ...(await strikes[name]({ world, load, options, random })) }
      struck.push(one)
      for (const text of [...one.misses, ...one.late]) say(`${name}: ${text}`)
    }
    if (due.length > 0) await sleep(options.pauseMs)
    await allBack(world)
    await load.end()
  } finally {
    clearInterval(progress)
  }
  say(soFar(beganMs, due.length, struck, load))

  const judgement = await judge(t, world, load)
  for (const { child, name } of world.gateways) {
    child.signal('SIGTERM')
    const { code, signal } = await child.exited
    if (code !== 0) misses.push(`the ${name} gateway ended with ${code ?? signal}`)
  }
  misses.push(...struck.flatMap((one) => one.misses.map((text) => `${one.name}: ${text}`)))
  const late = struck.flatMap((one) => one.late.map((text) => `${one.name}: ${text}`))
  misses.push(...strangeAnswers(load.received))
  const waits = load.calls
    .filter(({ struckMs, endedMs }) => struckMs !== undefined && endedMs !== undefined)
    .map(({ n, struckMs, endedMs }) => ({ n, ms: endedMs! - struckMs! }))
    .sort((one, other) => one.ms - other.ms)
  const longer = waits.filter(({ ms }) => ms > ANSWERED_MS)
  if (longer.length > 0)
    late.push(
      `${longer.length} of ${waits.length} calls that were at a gateway that was struck were answered more than ${ANSWERED_MS} ms after ` +
        `the last strike, call ${longer.at(-1)!.n} after ${Math.round(longer.at(-1)!.ms)} ms`,
    )
  // The seller that had no time is this process.
  for (const { gateway, response, atMs, tookMs } of load.freeResponses)
    if (response !== '200') {
      const last = struck.findLast((one) => one.beganMs <= atMs)
      const since = last === undefined ? '' : `, ${Math.round(atMs - last.beganMs)} ms after a ${last.name}`
      ;(response === '504' ? late : misses).push(
        `a free call of the ${gateway} gateway heard "${response}" after ${Math.round(tookMs)} ms, asked ${Math.round((atMs - beganMs) / 1_000)} s from the start${since}`,
      )
    }
  return {
    ...judgement,
    seconds: Math.round((performance.now() - beganMs) / 1_000),
    struck,
    openAtReturnMs: longestOpen(struck, load),
    atStruck: {
      count: waits.length,
      medianMs: Math.round(waits[Math.floor(waits.length / 2)]?.ms ?? 0),
      longestMs: Math.round(waits.at(-1)?.ms ?? 0),
    },
    free: {
      requests: load.freeResponses.length,
      longestMs: Math.round(Math.max(0, ...load.freeResponses.map(({ tookMs }) => tookMs))),
    },
    responses: tally(load.received),
    misses: [...misses, ...judgement.misses],
    late,
  }
}

/** Each has come back, and served: it has no data of a link that was not called there since, while the database is down. */
async function allBack({ gateways }: World): Promise<void> {
  await Promise.all(gateways.map(({ starting }) => starting))
  await eventually(async () => gateways.every(({ hasServed }) => hasServed) || undefined, 60_000)
}

/** One payment presented a hundred times at once: the seller works once, and every served request gets the same response. */
async function hundred({ api }: World, load: Load): Promise<string[]> {
  const { target, responses } = await load.presentAtOnce(AT_ONCE)
  const served = responses.filter(({ status }) => status === 200)
  const query = target.slice(target.indexOf('?'))
  const worked = api.calls.filter((call) => call.endsWith(query)).length
  const strange = responses.filter(({ status }) => status !== 200 && status !== 503)
  return [
    ...(served.length === 0 ? [`expected a served request of ${AT_ONCE} at once`] : []),
    ...(new Set(served.map(({ text }) => text)).size > 1 ? ['one payment has two answers'] : []),
    ...(worked === 1 ? [] : [`the seller worked ${worked} times for one payment`]),
    ...strange.map(({ status, text }) => `one of ${AT_ONCE} at once heard ${status} ${text.slice(0, 200)}`),
  ]
}

function longestOpen(struck: readonly Struck[], { calls }: Load): number {
  const outages = struck.filter(({ name }) => name !== 'kill')
  const tookMs = outages.flatMap(({ returnedMs }) =>
    calls
      .filter(({ beganMs, endedMs }) => beganMs < returnedMs && endedMs !== undefined && endedMs > returnedMs)
      .map(({ endedMs }) => endedMs! - returnedMs),
  )
  return Math.round(Math.max(0, ...tookMs))
}

function strangeAnswers(received: readonly LoadResponse[]): string[] {
  const strange = received.filter(({ response }) => /^5/.test(response) && !refusals.has(response))
  return Object.entries(tally(strange)).map(([response, times]) => `${times} paid calls heard "${response}"`)
}

function tally(received: readonly LoadResponse[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { response } of received) counts[response] = (counts[response] ?? 0) + 1
  return counts
}

function soFar(beganMs: number, due: number, struck: readonly Struck[], { calls, received }: Load): string {
  const seconds = Math.round((performance.now() - beganMs) / 1_000)
  const ended = calls.filter(({ endedMs }) => endedMs !== undefined).length
  const responses = Object.entries(tally(received)).map(([response, times]) => `${response}: ${times}`)
  return `${seconds} s, ${struck.length} of ${due} strikes, ${calls.length} calls (${calls.length - ended} open), heard ${responses.join(', ')}`
}

function shuffled(names: readonly StrikeName[], random: () => number): StrikeName[] {
  const left = [...names]
  return names.map(() => left.splice(Math.floor(random() * left.length), 1)[0]!)
}
