import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import {
  editDatabase,
  logRowsOf,
  type OpenJournals,
  openJournals,
  writeLogRows,
} from '../../test/helpers/vault/journals.ts'
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import type { AuditEvent, AuditWarning } from '../ports/audit.ts'

const DAY_MS = 86_400_000
const headOf = (home: string) => join(home, 'audit.head')
const bytesOf = (home: string) => logRowsOf(home).reduce((sum, { body }) => sum + body.length + 100, 0)
const read: AuditEvent = { agent: 'a', action: 'READ', status: 'AUTO_APPROVED', scope: 'identity.name' }
const refused: AuditEvent = {
  agent: 'a',
  action: 'READ',
  status: 'DENIED',
  code: 'SCOPE_DENIED',
  requestId: 'r',
}

type Log = OpenJournals['audit']

const allOf = async (log: Log) => (await log.query({ limit: 500 })).entries

t.test('the log stays within its size, verifies from its cut on, and a cut can not be made up', async (t) => {
  const home = t.testdir()
  const limits = { maxBytes: 10_000 }
  const { audit, end } = openJournals(home, { limits })
  for (let n = 0; n < 200; n++) {
    await audit.append(read)
    await audit.dropOld()
  }
  const verdict = await audit.verify()
  t.match(verdict, { ok: true, authenticated: true })
  t.ok(verdict.dropped! > 100)
  const entries = await allOf(audit)
  t.equal(entries.length, verdict.entries, 'what is dropped is not shown')
  t.match(
    entries.find(({ action }) => action === 'CONFIG'),
    { agent: 'vault', status: 'APPROVED', note: /are dropped by its limits/ },
  )
  await end()
  t.ok(bytesOf(home) < 11_000, `${bytesOf(home)} bytes`)
  const again = openJournals(home, { limits })
  const later = await again.audit.verify()
  t.equal(later.ok, true, 'also after a restart')
  t.ok(later.dropped! >= verdict.dropped!)
  t.equal(again.audit.damage, undefined)
  await again.end()

  const head = readFileSync(headOf(home), 'utf8')
  const { sealed } = editDatabase(home, (db) => db.prepare('SELECT sealed FROM state').get())!
  const rows = logRowsOf(home)
  writeLogRows(home, rows.slice(1))
  const { cut, ...uncut } = JSON.parse(head)
  const laterCut = head.replace(`"seq":${cut.seq}`, `"seq":${cut.seq + 1}`)
  for (const forged of [head, `${JSON.stringify(uncut)}\n`, laterCut]) {
    writeFileSync(headOf(home), forged)
    const changed = openJournals(home)
    t.match(await changed.audit.verify(), { ok: false }, forged.slice(0, 60))
    await changed.end()
    writeLogRows(home, rows.slice(1))
    editDatabase(home, (db) => db.prepare('UPDATE state SET sealed = ?').run(sealed!))
  }
  writeFileSync(headOf(home), head)
  writeLogRows(home, [{ ...rows[0]!, seq: rows[0]!.seq - 1 }, ...rows])
  const putBack = openJournals(home)
  t.match(await putBack.audit.verify(), { ok: false, reason: /was dropped but is there again/ })
  await putBack.end()
})

t.test('entries go when they are old, also of a log that is written rarely', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  for (let day = 0; day < 60; day++) {
    const { audit: log, end } = openJournals(home, { clock, limits: { maxBytes: 1e9, keepMs: 8 * DAY_MS } })
    await log.dropOld()
    await log.append({ ...read, note: `day ${day}` })
    await log.dropOld()
    t.match(await log.verify(), { ok: true })
    if (day === 59) {
      const days = (await allOf(log)).flatMap(({ note }) => /^day (\d+)/.exec(note ?? '')?.[1] ?? [])
      t.ok(days.length >= 8 && days.length <= 12, `of days ${days}`)
    }
    await end()
    clock.pass(DAY_MS)
  }
})

t.test('a log that is read while its oldest entries are dropped is whole', async (t) => {
  const home = t.testdir()
  const { audit, end } = openJournals(home)
  await Promise.all(Array.from({ length: 6_000 }, () => audit.append(read)))
  await end()
  const again = openJournals(home, { limits: { maxBytes: 40_000 } })
  const dropping = again.audit.dropOld()
  const reading = []
  for (let turn = 0; turn < 20; turn++) {
    reading.push(again.audit.verify())
    await nextTurn()
  }
  for (const verdict of await Promise.all(reading)) t.match(verdict, { ok: true, authenticated: true })
  await dropping
  t.match(await again.audit.verify(), { ok: true, dropped: Number })
  await again.end()
})

t.test('a vault that is locked while entries are dropped finds its log whole again', async (t) => {
  const home = t.testdir()
  const { audit, end } = openJournals(home)
  await Promise.all(Array.from({ length: 6_000 }, () => audit.append(read)))
  await end()
  for (let turns = 0; turns < 30; turns += 3) {
    const locked = openJournals(home, { limits: { maxBytes: 40_000 } })
    const dropping = locked.audit.dropOld().catch(() => {})
    for (let i = 0; i < turns; i++) await nextTurn()
    await locked.lock()
    await dropping
    locked.close()
    const again = openJournals(home)
    t.equal(again.audit.damage, undefined)
    t.match(await again.audit.verify(), { ok: true }, `locked after ${turns} turns`)
    await again.end()
  }
  const last = openJournals(home, { limits: { maxBytes: 40_000 } })
  await last.audit.dropOld()
  t.ok((await allOf(last.audit)).length < 500, 'and the rest is dropped later')
  await last.end()
})

t.test('damage in what is dropped is told in the log', async (t) => {
  const home = t.testdir()
  const { audit, end } = openJournals(home)
  for (let n = 0; n < 40; n++) await audit.append(read)
  await end()
  const [first, ...others] = logRowsOf(home)
  const body = Buffer.from(first!.body).toString().replace('identity.name', 'identity.mail')
  writeLogRows(home, [{ ...first!, body: Buffer.from(body) }, ...others])
  const next = openJournals(home, { limits: { maxBytes: 3_000 } })
  await next.audit.dropOld()
  t.match(await allOf(next.audit), [{ action: 'CONFIG', status: 'FAILED', note: /damaged: entry 1 / }])
  await next.end()
})

t.test(
  'an agent that is refused a hundred thousand times has a few entries, and the owner hears of it',
  async (t) => {
    const home = t.testdir()
    const clock = new ManualClock()
    const { audit: log, end } = openJournals(home, { clock })
    const received: AuditWarning[] = []
    log.onWarning((warning) => void received.push(warning))
    await log.append({ ...read, agent: 'other' })
    for (let n = 0; n < 100_000; n++) {
      const call = log.appendRefusal(n % 2 === 0 ? refused : { ...refused, scope: `custom.${n}` })
      if (n % 10_000 === 0) await call
    }
    clock.pass(5 * 60_000)
    await log.appendRefusal(refused)
    t.match(
      received.map(({ code, message }) => `${code} ${message}`),
      [/^LOG_REFUSALS The agent a was refused 100 times/, /200 times/],
    )
    t.ok(received.length < 50, `${received.length} lines about it`)
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
    await end()
  },
)

t.test(
  'each further quarter of an hour has its sum, and what is counted is there after a lock',
  async (t) => {
    const home = t.testdir()
    const clock = new ManualClock()
    const { audit: log, end } = openJournals(home, { clock })
    for (let n = 0; n < 10; n++) await log.appendRefusal(refused)
    clock.pass(16 * 60_000)
    await log.save()
    for (let n = 0; n < 3; n++) await log.appendRefusal(refused)
    await log.appendRefusal({ ...refused, claimed: 'another lie' })
    await end()
    const again = openJournals(home, { clock })
    const notes = (await allOf(again.audit)).toReversed().map(({ note, requestId }) => note ?? requestId)
    t.match(notes, ['r', /the same 9 times/, 'r', 'r', /the same 2 times/])
    t.match(await again.audit.verify(), { ok: true, unauthenticated: { length: 0 } })
    await again.end()
  },
)

t.test('a log that grows so fast that it forgets within a week is told', async (t) => {
  const home = t.testdir()
  const { audit: log, end } = openJournals(home, { limits: { maxBytes: 200_000 } })
  t.strictSame(log.warnings, [])
  for (let n = 0; n < 10; n++) await log.append(read)
  t.match(log.warnings, [{ code: 'LOG_GROWS', action: /maxMegabytes/ }])
  await end()
})
