import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { AuditEvent, AuditWarning } from '../ports/audit.ts'
import { ManualClock } from '../testing/manualClock.ts'
import { ChainedAuditLog } from './chainedAuditLog.ts'
import type { AuditLimits } from './dropOld.ts'

const key = Buffer.alloc(32, 4)
const dayMs = 86_400_000
const headOf = (home: string) => join(home, 'audit.head')
const filesOf = (home: string) => readdirSync(join(home, 'audit')).map((name) => join(home, 'audit', name))
const bytesOf = (home: string) => filesOf(home).reduce((sum, file) => sum + statSync(file).size, 0)
const read: AuditEvent = { agent: 'a', action: 'READ', status: 'AUTO_APPROVED', scope: 'identity.name' }
const refused: AuditEvent = {
  agent: 'a',
  action: 'READ',
  status: 'DENIED',
  code: 'SCOPE_DENIED',
  requestId: 'r',
}

function openLog(home: string, clock: ManualClock, limits?: AuditLimits): ChainedAuditLog {
  const log = ChainedAuditLog.open({
    folder: join(home, 'audit'),
    headFile: headOf(home),
    clock,
    isNew: !existsSync(headOf(home)),
    segmentBytes: 2_000,
    ...(limits !== undefined && { limits }),
  })
  log.unlock(key)
  return log
}

const allOf = async (log: ChainedAuditLog) => (await log.query({ limit: 500 })).entries

t.test('the log stays within its size, verifies from its cut on, and a cut can not be made up', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  const limits = { maxBytes: 10_000 }
  const log = openLog(home, clock, limits)
  for (let n = 0; n < 200; n++) {
    await log.append(read)
    await log.dropOld()
  }
  t.ok(bytesOf(home) < 13_000, `${bytesOf(home)} bytes`)
  const verdict = await log.verify()
  t.match(verdict, { ok: true, authenticated: true })
  t.ok(verdict.dropped! > 100)
  const entries = await allOf(log)
  t.equal(entries.length, verdict.entries, 'what is dropped is not shown')
  t.match(
    entries.find(({ action }) => action === 'CONFIG'),
    { agent: 'vault', status: 'APPROVED', note: /are dropped by its limits/ },
  )
  await log.close()
  const again = openLog(home, clock, limits)
  t.match(await again.verify(), { ok: true, dropped: verdict.dropped }, 'also after a restart')
  t.equal(again.damage, undefined)
  await again.close()

  const whole = readFileSync(headOf(home))
  const first = filesOf(home)[0]!
  const bytes = readFileSync(first)
  rmSync(first)
  const { cut, ...head } = JSON.parse(whole.toString())
  for (const forged of [
    whole.toString(),
    JSON.stringify(head),
    whole
      .toString()
      .replace(`"seq":${cut.seq}`, `"seq":${Number(/(\d+)\.jsonl/.exec(filesOf(home)[0]!)![1]) - 1}`),
  ]) {
    writeFileSync(headOf(home), forged)
    const changed = openLog(home, clock, { maxBytes: 1e9 })
    t.match(await changed.verify(), { ok: false }, forged.slice(0, 60))
    await changed.close()
    for (const file of filesOf(home)) if (statSync(file).size === 0) rmSync(file)
  }
  writeFileSync(first, bytes)
})

t.test('a crash between the head and the removal of old files leaves a log that verifies', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  const log = openLog(home, clock)
  for (let n = 0; n < 60; n++) await log.append(read)
  await log.close()
  const before = filesOf(home).map((file) => [file, readFileSync(file)] as const)
  const cutting = openLog(home, clock, { maxBytes: 5_000 })
  await cutting.dropOld()
  await cutting.close()
  const kept = filesOf(home).length
  for (const [file, bytes] of before) if (!existsSync(file)) writeFileSync(file, bytes)
  const next = openLog(home, clock, { maxBytes: 5_000 })
  t.match(await next.verify(), { ok: true, dropped: Number })
  await next.dropOld()
  t.ok(filesOf(home).length <= kept + 1, 'and they are removed now')
  await next.close()
})

t.test('entries go when they are old, also of a log that is written rarely', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  for (let day = 0; day < 60; day++) {
    const log = openLog(home, clock, { maxBytes: 1e9, keepMs: 8 * dayMs })
    await log.dropOld()
    await log.append({ ...read, note: `day ${day}` })
    await log.dropOld()
    t.match(await log.verify(), { ok: true })
    if (day === 59) {
      const days = (await allOf(log)).flatMap(({ note }) => /^day (\d+)/.exec(note ?? '')?.[1] ?? [])
      t.ok(days.length >= 8 && days.length <= 12, `of days ${days}`)
    }
    await log.close()
    clock.pass(dayMs)
  }
})

t.test('damage in what is dropped is told in the log', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  const log = openLog(home, clock)
  for (let n = 0; n < 40; n++) await log.append(read)
  const [first] = filesOf(home)
  writeFileSync(first!, readFileSync(first!, 'utf8').replace('identity.name', 'identity.mail'))
  await log.close()
  const next = openLog(home, clock, { maxBytes: 3_000 })
  await next.dropOld()
  t.match(await allOf(next), [{ action: 'CONFIG', status: 'FAILED', note: /damaged: entry 1 / }])
  await next.close()
})

t.test(
  'an agent that is refused a hundred thousand times has a few entries, and the owner hears of it',
  async (t) => {
    const home = t.testdir()
    const clock = new ManualClock()
    const log = openLog(home, clock)
    const heard: AuditWarning[] = []
    log.onWarning((warning) => void heard.push(warning))
    await log.append({ ...read, agent: 'other' })
    for (let n = 0; n < 100_000; n++) {
      const call = log.appendRefusal(n % 2 === 0 ? refused : { ...refused, scope: `custom.${n}` })
      if (n % 10_000 === 0) await call
    }
    clock.pass(5 * 60_000)
    await log.appendRefusal(refused)
    t.match(
      heard.map(({ code, message }) => `${code} ${message}`),
      [/^LOG_REFUSALS The agent a was refused 100 times/, /200 times/],
    )
    t.ok(heard.length < 50, `${heard.length} lines about it`)
    await log.save()
    const entries = await allOf(log)
    t.ok(entries.length < 50, `${entries.length} entries`)
    t.ok(
      entries.some(({ agent }) => agent === 'other'),
      'the others’ entries are there',
    )
    t.match(
      entries.map(({ note }) => note).join('\n'),
      /the same 50,000 times until 2026-03-01T12:05:00\.000Z/,
    )
    t.match(await log.verify(), { ok: true })
    clock.pass(3 * 3_600_000)
    t.strictSame(log.warnings, [], 'it is over after a while')
    await log.close()
  },
)

t.test(
  'each further quarter of an hour has its sum, and what is counted is there after a lock',
  async (t) => {
    const home = t.testdir()
    const clock = new ManualClock()
    const log = openLog(home, clock)
    for (let n = 0; n < 10; n++) await log.appendRefusal(refused)
    clock.pass(16 * 60_000)
    await log.save()
    for (let n = 0; n < 3; n++) await log.appendRefusal(refused)
    await log.appendRefusal({ ...refused, claimed: 'another lie' })
    await log.lock()
    log.unlock(key)
    const notes = (await allOf(log)).toReversed().map(({ note, requestId }) => note ?? requestId)
    t.match(notes, ['r', /the same 9 times/, 'r', 'r', /the same 2 times/])
    t.match(await log.verify(), { ok: true, unauthenticated: { length: 0 } })
    await log.close()
  },
)

t.test('a log that grows so fast that it forgets within a week is told', async (t) => {
  const home = t.testdir()
  const log = openLog(home, new ManualClock(), { maxBytes: 200_000 })
  t.strictSame(log.warnings, [])
  for (let n = 0; n < 10; n++) await log.append(read)
  t.match(log.warnings, [{ code: 'LOG_GROWS', action: /maxMegabytes/ }])
  await log.close()
})
