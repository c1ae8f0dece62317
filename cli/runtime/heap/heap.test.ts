import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { runTollgate } from '../../../test/e2e/helpers/child.ts'

/**
 * Used by both programs below: the size of the young generation, in MB, and allocating enough for it to grow.
 */
const common = `
  import { getHeapSpaceStatistics } from 'node:v8'
  const youngMb = () => getHeapSpaceStatistics().find((one) => one.space_name === 'new_space').space_size / 1e6
  function keep() {
    const kept = []
    for (let i = 0; i < 2e6; i++) kept[i % 60_000] = { i, list: [i] }
    return kept.length
  }`

const run = (flags: readonly string[], program: string) =>
  JSON.parse(
    execFileSync(process.execPath, [...flags, '--input-type=module', '-e', common + program], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
    }),
  )

const flags = ['--max-semi-space-size=16']

t.test('what has filled the young generation is given back when nothing is to do', (t) => {
  const program = `
    import { setTimeout as sleep } from 'node:timers/promises'
    import { releaseHeap } from './releaseHeap.ts'
    for (let i = 0; i < 50 && youngMb() < 20; i++) keep()
    const before = youngMb()
    releaseHeap()
    const busyUntilMs = performance.now() + 1_500
    while (performance.now() < busyUntilMs) {
      const untilMs = performance.now() + 20
      while (performance.now() < untilMs);
      await sleep(1)
    }
    const busy = youngMb()
    for (let i = 0; i < 100 && youngMb() > 4; i++) await sleep(50)
    console.log(JSON.stringify([before, youngMb(), busy]))`
  const [before, after, busy] = run(flags, program)
  t.ok(before > 8, `it has grown to ${before} MB`)
  t.ok(busy > 8, `it is ${busy} MB while something is to do`)
  t.ok(after < 4, `it is ${after} MB`)
  t.end()
})

t.test('what a start has compiled is taken by the next process', (t) => {
  const env = { ...process.env, NODE_COMPILE_CACHE: t.testdir(), NODE_DEBUG_NATIVE: 'COMPILE_CACHE' }
  const program = `
    import { setTimeout as sleep } from 'node:timers/promises'
    import { releaseHeap } from './releaseHeap.ts'
    releaseHeap()
    await sleep(600)`
  const start = () =>
    spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      env,
    }).output.join('')
  const isTaken = /ESM .*releaseHeap\.ts was accepted/
  t.notMatch(start(), isTaken)
  t.match(start(), isTaken)
  t.end()
})

t.test('threads stay small and the main thread does not, also when they are started later', (t) => {
  const [threads, main] = run(
    flags,
    `
    import { once } from 'node:events'
    import { Worker } from 'node:worker_threads'
    import { limitThreadHeaps } from './limitThreadHeaps.ts'
    const threads = []
    async function ask(program) {
      const worker = new Worker(program, { eval: true, execArgv: [] })
      threads.push((await once(worker, 'message'))[0])
    }
    const program = ${JSON.stringify(common)}.replace('import {', 'const {').replace("} from 'node:v8'", "} = require('node:v8')")
    const say = program + '; keep(); require("node:worker_threads").parentPort.postMessage(youngMb())'
    await ask(say)
    limitThreadHeaps()
    await ask(say)
    for (let i = 0; i < 4; i++) keep()
    await ask(say)
    console.log(JSON.stringify([threads, youngMb()]))`,
  )
  t.ok(threads[0] > 6, `without a limit ${threads[0]} MB`)
  t.ok(threads[1] < 5 && threads[2] < 5, `with one ${threads[1]} and ${threads[2]} MB`)
  t.ok(main > 6, `the main thread has ${main} MB`)
  t.end()
})

t.test('a gateway that has started has a small young generation, which may grow', async (t) => {
  const { admin, child } = await start(t)
  const young = await youngOf(admin)
  t.ok(young > 0 && young < 12e6, `it has ${young} bytes`)
  child.signal('SIGTERM')
  t.equal((await child.exited).code, 0)
})

/** The size of its young generation in bytes, once that is small. */
async function youngOf(admin: string): Promise<number> {
  let young = 0
  for (let tries = 0; tries < 20 && (young === 0 || young >= 12e6); tries++) {
    await sleep(500)
    const metrics = await (await fetch(`${admin}/metrics`)).text()
    young = Number(/^nodejs_heap_space_size_total_bytes\{space="new"\} (\S+)/m.exec(metrics)?.[1])
  }
  return young
}

const logMaps = ['--log-maps', '--no-log-maps-details']

/**
 * How often a hidden class was created for the objects of `process.nextTick`, in the isolate with most
 * classes: the main thread's. Other objects with such a symbol, such as timers, have classes of a different
 * origin.
 */
function tickShapes(folder: string): number {
  const logs = readdirSync(folder).filter((name) => name.endsWith('maps.log'))
  const texts = logs.map((name) => readFileSync(join(folder, name), 'latin1'))
  const main = texts.sort((a, b) => b.length - a.length)[0]!
  const origins = main.split('\n').flatMap((line) => {
    const [kind, why, , from, , , , , , name] = line.split(',')
    return kind === 'map' && why === 'Transition' && name?.startsWith('symbol("async_id_symbol"')
      ? [from]
      : []
  })
  const byOrigin = [...Map.groupBy(origins, (from) => from).values()]
  return Math.max(0, ...byOrigin.map((those) => those.length))
}

t.test('what the next tick is made of has one hidden class, however often the heap is made small', (t) => {
  const shapesOf = (first: string) => {
    const folder = t.testdir({})
    run(
      [...logMaps, `--logfile=${folder}/maps.log`, '--expose-gc'],
      `
      import { setTimeout as sleep } from 'node:timers/promises'
      import { keepTickShape } from './tickObjectShape.ts'
      ${first}
      for (let i = 0; i < 3; i++) {
        process.nextTick(() => {})
        await sleep(10)
        gc({ type: 'major', flavor: 'last-resort' })
      }
      process.nextTick(() => console.log('[]'))`,
    )
    return tickShapes(folder)
  }
  t.ok(shapesOf('') > 1, 'without, one for each time')
  t.equal(shapesOf('keepTickShape()'), 1)
  t.end()
})

t.test('a gateway that has collected when nothing was to do makes ticks as it did before', async (t) => {
  const folder = t.testdir({})
  const { admin, child } = await start(t, folder, [...logMaps, `--logfile=${folder}/maps.log`])
  t.ok((await youngOf(admin)) < 12e6, 'it has collected')
  child.signal('SIGTERM')
  t.equal((await child.exited).code, 0)
  t.equal(tickShapes(folder), 1)
})

async function start(t: Test, folder = t.testdir({}), flags: readonly string[] = []) {
  const file = `${folder}/tollgate.yaml`
  writeFileSync(
    file,
    JSON.stringify({
      publicUrl: 'http://127.0.0.1:8080',
      gateway: { port: 0 },
      admin: { port: 0 },
      storage: { path: './tollgate.db' },
      secretFile: './secret',
      plugins: [{ use: 'metrics' }],
      log: { format: 'json' },
    }),
  )
  const child = runTollgate(t, ['start', '--config', file], {}, flags)
  await child.waitForOutput('tollgate is running')
  const { admin } = JSON.parse(
    (child.stdout() + child.stderr()).split('\n').find((line) => line.includes('tollgate is running'))!,
  ) as { admin: string }
  return { admin, child }
}
