import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { pidOf } from '../../adapters/store/sql/processName.ts'
import type { Chain } from '../e2e/helpers/chains.ts'
import type { Load } from './load.ts'
import type { SoakOptions } from './options.ts'
import type { Gateway, World } from './world.ts'

/** What a strike has to do with. */
export interface Scene {
  readonly world: World
  readonly load: Load
  readonly options: SoakOptions
  readonly random: () => number
}

/** One strike, and how it was borne. Times are in milliseconds. */
export interface Struck {
  readonly name: StrikeName
  readonly beganMs: number
  readonly returnedMs: number
  /** By gateway: after the return, until a payment was presented that was served, and until /readyz was 200. */
  readonly servedAfterMs: readonly number[]
  readonly readyAfterMs: readonly number[]
  /** What was promised and did not come. */
  readonly misses: readonly string[]
  /** What came later than promised. */
  readonly late: readonly string[]
}

type Borne = Omit<Struck, 'name'>

export const strikeNames = [
  'kill',
  'stop',
  'postgres-fast',
  'postgres-immediate',
  'postgres-freeze',
  'redis-stop',
  'redis-freeze',
  'node-away',
  'node-silent',
] as const
export type StrikeName = (typeof strikeNames)[number]

/** After the return of what was away, all is well within this. */
const WELL_MS = 5_000
/** A key that was left is another process's in this time. */
const TAKEN_OVER_MS = 15_000
/** How much later than promised something may be seen on a busy machine. */
const LENIENCE_MS = 3_000
/** What is away for less than `unavailableMs`: a restart. */
const MAX_RESTART_MS = 4_000

export const strikes: Readonly<Record<StrikeName, (scene: Scene) => Promise<Borne>>> = {
  async kill({ world, load, random }) {
    const gateway = await atWork(world, random)
    const beganMs = performance.now()
    load.struck(gateway)
    gateway.child.signal('SIGKILL')
    await gateway.child.exited
    // The next one is not kept waiting: the other gateway may be killed while this one starts.
    gateway.starting = gateway.start()
    gateway.starting.catch(() => undefined)
    const returnedMs = performance.now()
    return { beganMs, returnedMs, servedAfterMs: [], readyAfterMs: [], misses: [], late: [] }
  },

  /** The process that settles stands still, and wakes up. */
  async stop(scene) {
    const { world, load, options, random } = scene
    const gateway = (await holderOf(world)) ?? anyOf(world.gateways, random)
    const late: string[] = []
    return {
      ...(await outage(scene, {
        begin() {
          load.struck(gateway)
          gateway.child.signal('SIGSTOP')
        },
        async meanwhile() {
          const beganMs = performance.now()
          const others = world.gateways.filter((one) => one !== gateway)
          const [answered] = await Promise.all([
            Promise.all(others.map((one) => load.servedAt(one, options.unavailableMs))),
            sleep(options.unavailableMs),
          ])
          for (const one of answered) {
            // A gateway that served no request in the whole time is late, and counted where it has to serve again.
            const tookMs = one === undefined ? options.unavailableMs : one.beganMs - beganMs
            if (tookMs > TAKEN_OVER_MS + LENIENCE_MS)
              late.push(`while the holder stood still, the other settled after ${Math.round(tookMs)} ms`)
          }
        },
        end() {
          gateway.child.signal('SIGCONT')
          gateway.isUp = true
        },
        late,
      })),
    }
  },

  'postgres-fast': (scene) => postgresRestarts(scene, 'fast'),
  'postgres-immediate': (scene) => postgresRestarts(scene, 'immediate'),

  async 'postgres-freeze'(scene) {
    const postgres = scene.world.postgres!
    return outage(scene, {
      begin: () => postgres.freeze(),
      meanwhile: () => sleep(scene.options.unavailableMs),
      end: () => postgres.thaw(),
      refuses: 'store_unavailable',
    })
  },

  async 'redis-stop'(scene) {
    const redis = scene.world.redis!
    return outage(scene, {
      begin: () => redis.stop(),
      meanwhile: () => sleep(scene.random() * MAX_RESTART_MS),
      end: () => redis.start(),
      refuses: 'nothing',
    })
  },

  async 'redis-freeze'(scene) {
    const redis = scene.world.redis!
    return outage(scene, {
      begin: () => redis.freeze(),
      meanwhile: () => sleep(scene.options.unavailableMs),
      end: () => redis.thaw(),
      refuses: 'nothing',
    })
  },

  'node-away': (scene) => nodeStruck(scene, { kind: 'refuse' }),
  'node-silent': (scene) => nodeStruck(scene, { kind: 'hold' }),
}

/** One that has served since it was started: a kill of another one interrupts nothing. */
async function atWork({ gateways }: World, random: () => number): Promise<Gateway> {
  for (;;) {
    const those = gateways.filter(({ isUp, hasServed }) => isUp && hasServed)
    if (those.length > 0) return anyOf(those, random)
    await sleep(20)
  }
}

function postgresRestarts(scene: Scene, mode: 'fast' | 'immediate'): Promise<Borne> {
  const postgres = scene.world.postgres!
  return outage(scene, {
    begin: () => postgres.stop(mode),
    meanwhile: () => sleep(scene.random() * MAX_RESTART_MS),
    end: () => postgres.start(),
    refuses: 'store_unavailable',
  })
}

function nodeStruck(scene: Scene, fault: Parameters<Chain['rpc']['add']>[1]): Promise<Borne> {
  let lifts: (() => void)[] = []
  return outage(scene, {
    begin() {
      lifts = scene.world.paidOn.map(({ rpc }) => rpc.add('*', fault))
    },
    meanwhile: () => sleep(scene.options.unavailableMs),
    end() {
      for (const lift of lifts) lift()
    },
  })
}

interface Outage {
  begin(): void | Promise<void>
  meanwhile(): Promise<void>
  end(): void | Promise<void>
  /** The code that paid calls hear which are begun meanwhile; `nothing`: they are served. Default: not looked at. */
  readonly refuses?: 'store_unavailable' | 'nothing'
  /** What was late while it was away. */
  readonly late?: string[]
}

/** Something is away and comes back: what is heard meanwhile, and how soon all is well. */
async function outage({ world, load }: Scene, what: Outage): Promise<Borne> {
  const misses: string[] = []
  const late = what.late ?? []
  await what.begin()
  const beganMs = performance.now()
  const unready = sleep(LENIENCE_MS).then(() => Promise.all(world.gateways.map(timedReadiness)))
  await what.meanwhile()
  const endedMs = performance.now()
  await what.end()
  const returnedMs = performance.now()
  const [served, ready] = await Promise.all([
    Promise.all(world.gateways.map((one) => load.servedAt(one, 60_000))),
    Promise.all(world.gateways.map((one) => readyAgain(one, 60_000))),
  ])
  for (const { status, atMs } of await unready)
    if (what.refuses === 'store_unavailable' && atMs < endedMs && status !== 503)
      misses.push(`/readyz was ${status} while the store was away`)
  // What was on its way before may be pending because of what befell it then.
  const received = load.received.filter(
    ({ callBeganMs, atMs, tookMs }) => callBeganMs >= beganMs && atMs + tookMs <= endedMs,
  )
  const promised = what.refuses === 'nothing' ? '200' : `503 ${what.refuses}`
  for (const { response, tookMs } of what.refuses === undefined ? [] : received) {
    if (response !== promised) misses.push(`a paid call heard "${response}" after ${Math.round(tookMs)} ms`)
  }
  const servedAfterMs = served.map((one) => (one?.beganMs ?? Number.POSITIVE_INFINITY) - returnedMs)
  const readyAfterMs = ready.map(({ atMs }) => atMs - returnedMs)
  for (const [i, { name }] of world.gateways.entries()) {
    if (served[i] === undefined) misses.push(`the ${name} gateway did not serve again`)
    else if (servedAfterMs[i]! > WELL_MS)
      late.push(`the ${name} gateway served only ${Math.round(servedAfterMs[i]!)} ms after the return`)
    if (readyAfterMs[i] === Number.POSITIVE_INFINITY)
      misses.push(`the ${name} gateway was not ready again, and said ${ready[i]!.output}`)
    else if (readyAfterMs[i]! > WELL_MS)
      late.push(
        `the ${name} gateway was ready only ${Math.round(readyAfterMs[i]!)} ms after the return, and said ${ready[i]!.output}`,
      )
  }
  return { beganMs, returnedMs, servedAfterMs, readyAfterMs, misses, late }
}

async function readiness({ url }: Gateway): Promise<number | string> {
  const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5_000) }).catch(() => undefined)
  return response?.status ?? 'not answered'
}

/** What a gateway says only to its operator: why it is not ready. */
async function reasonsOf({ child }: Gateway): Promise<string> {
  const admin = /"admin":"([^"]+)"/.exec(child.stdout() + child.stderr())?.[1]
  const response = await fetch(`${admin}/readyz`, { signal: AbortSignal.timeout(5_000) }).catch(
    () => undefined,
  )
  return (await response?.text()) ?? 'no answer'
}

async function timedReadiness(gateway: Gateway): Promise<{ status: number | string; atMs: number }> {
  const status = await readiness(gateway)
  return { status, atMs: performance.now() }
}

/** When it was ready, and what it said last before. */
async function readyAgain(
  gateway: Gateway,
  patienceMs: number,
): Promise<{ readonly atMs: number; readonly output: string }> {
  const deadlineMs = performance.now() + patienceMs
  let output = ''
  while (performance.now() < deadlineMs) {
    const atMs = performance.now()
    if ((await readiness(gateway)) === 200) return { atMs, output }
    output = await reasonsOf(gateway)
    await sleep(100)
  }
  return { atMs: Number.POSITIVE_INFINITY, output }
}

/** The gateway that holds the key of the first chain that is paid on. */
async function holderOf({ postgres, paidOn, gateways }: World): Promise<Gateway | undefined> {
  if (postgres === undefined) return undefined
  const client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  try {
    const { rows } = await client.query<{ holder: string | null }>(
      'SELECT holder FROM tollgate.leases WHERE name LIKE $1',
      [`settle:${paidOn[0]!.name}:%`],
    )
    const pids = rows.flatMap(({ holder }) => (holder === null ? [] : [pidOf(holder)]))
    return gateways.find(({ child }) => pids.includes(child.pid))
  } finally {
    await client.end()
  }
}

const anyOf = <T>(list: readonly T[], random: () => number): T => list[Math.floor(random() * list.length)]!
