import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { silentLog } from '../ports/log.ts'
import { type JobOptions, runningJobs, startJob } from './job.ts'

/** A job whose time is advanced by the test, without jitter. */
function start(t: Test, options: Partial<JobOptions> & Pick<JobOptions, 'run'>) {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const random = Math.random
  Math.random = () => 0
  const logged: { level: string; fields: object; message: string }[] = []
  const keep = (level: string) => (fields: object, message: string) =>
    void logged.push({ level, fields, message })
  const log = { debug() {}, info: keep('info'), warn: keep('warn'), error: keep('error') }
  const job = startJob({ name: 'water the plants', everyMs: 100, log, ...options })
  t.teardown(async () => {
    await job.stop()
    Math.random = random
    mock.timers.reset()
  })
  async function pass(ms: number): Promise<void> {
    for (let i = 0; i < ms; i += 10) {
      mock.timers.tick(10)
      await new Promise(setImmediate)
    }
  }
  return { job, logged, pass }
}

t.test('it runs after each interval, or after the delay that a run returns', async (t) => {
  const delays = [undefined, { inMs: 30 }, { inMs: 0 }, { inMs: 200 }]
  let runs = 0
  const { pass } = start(t, { run: () => delays[runs++] })
  await pass(90)
  t.equal(runs, 0)
  await pass(10)
  t.equal(runs, 1)
  await pass(100)
  t.equal(runs, 2)
  await pass(40)
  t.equal(runs, 4, 'the one that said 0 is followed at once')
  await pass(190)
  t.equal(runs, 4)
  await pass(20)
  t.equal(runs, 5)
})

t.test('runs never overlap, and one that is requested meanwhile comes right after', async (t) => {
  let underWay = 0
  let most = 0
  const ends: (() => void)[] = []
  const { job, pass } = start(t, {
    startsNow: true,
    async run() {
      most = Math.max(most, ++underWay)
      await new Promise<void>((resolve) => ends.push(resolve))
      underWay--
    },
  })
  await pass(500)
  t.equal(ends.length, 1)
  t.type(job.runningMs, 'number')
  let isOver = false
  const requested = Promise.all([job.runNow(), job.runNow()]).then(() => (isOver = true))
  ends[0]!()
  await pass(10)
  t.equal(ends.length, 2, 'one run for both')
  t.notOk(isOver, 'the run that was under way does not count')
  ends[1]!()
  await requested
  t.equal(most, 1)
  t.equal(job.runningMs, undefined)
  await pass(100)
  t.equal(ends.length, 3)
  ends[2]!()
})

t.test('a job that always has more to do lets everything else have its turn', async (t) => {
  let runs = 0
  const job = startJob({
    name: 'work off a page',
    everyMs: 60_000,
    startsNow: true,
    log: silentLog,
    run: () => (++runs < 10_000 ? { inMs: 0 } : undefined),
  })
  t.teardown(() => job.stop())
  await new Promise((resolve) => setImmediate(resolve))
  t.ok(runs > 0 && runs < 100, `${runs} runs in one turn of the event loop`)
  void job.runNow()
  const before = runs
  await new Promise((resolve) => setImmediate(resolve))
  t.ok(runs - before < 100, 'also when it is asked for more')
})

t.test('requests have a least time between runs', async (t) => {
  let runs = 0
  const { job, pass } = start(t, { minGapMs: 1_000, everyMs: 60_000, run: () => void runs++ })
  await job.runNow()
  t.equal(runs, 1, 'the first one at once')
  void job.runNow()
  void job.runNow()
  await pass(10)
  t.equal(runs, 1)
})

t.test('a failure is kept and logged once, until it works again', async (t) => {
  let isBroken = true
  const { job, logged, pass } = start(t, {
    run() {
      if (isBroken) throw new Error('no water')
    },
  })
  t.match(job, { lastRunAtMs: undefined, lastDurationMs: undefined, lastError: undefined })
  await pass(500)
  t.match(job, {
    lastRunAtMs: Number,
    lastDurationMs: Number,
    lastError: 'no water',
    lastSuccessAtMs: undefined,
  })
  t.match(logged, [
    {
      level: 'warn',
      fields: { event: 'job_failed', job: 'water the plants', err: { message: 'no water' } },
      message: 'water the plants: failed; trying again',
    },
  ])
  t.equal(logged.length, 1)
  isBroken = false
  await pass(200)
  t.match(job, { lastError: undefined, lastSuccessAtMs: Number })
  t.match(logged.slice(1), [{ level: 'info', fields: { event: 'job_recovered' } }])
})

t.test('a run that fails with no error runs again all the same', async (t) => {
  let runs = 0
  const { job, pass } = start(t, {
    async run() {
      // Some libraries do this.
      if (++runs === 1) throw undefined
    },
  })
  await pass(100)
  t.equal(job.lastError, 'undefined')
  await pass(200)
  t.ok(runs > 1)
})

t.test('a stop waits for the run under way, and nothing runs after it', async (t) => {
  let runs = 0
  const mayEnd = Promise.withResolvers<void>()
  const { job, pass } = start(t, {
    startsNow: true,
    async run(signal) {
      runs++
      await mayEnd.promise
      t.ok(signal.aborted)
    },
  })
  t.ok(runningJobs.has(job))
  const requested = job.runNow()
  let isStopped = false
  const stopped = job.stop().then(() => (isStopped = true))
  await pass(50)
  t.notOk(isStopped)
  mayEnd.resolve()
  await stopped
  await requested
  await job.runNow()
  await pass(500)
  t.equal(runs, 1)
  t.notOk(runningJobs.has(job))
})
