import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  editDatabase,
  type LogRow,
  logRowsOf,
  openJournals,
  writeLogRows,
} from '../../test/helpers/vault/journals.ts'
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import { type AuditEvent, auditActions, auditStatuses } from '../ports/audit.ts'
import { mayHappenLocked, passwordChanged, writeEntry } from './auditEntry.ts'

const wrongPassword: AuditEvent = { agent: 'owner', action: 'UNLOCK', status: 'DENIED' }
const spent: AuditEvent = { agent: 'a', action: 'SIGN', status: 'APPROVED', amount: '5', currency: 'USDC' }
const headOf = (home: string) => join(home, 'audit.head')

/** One session of an unlocked vault, after wrong passwords. */
async function session(home: string, entries: number, wrongOnes = 0): Promise<void> {
  const { audit, unlock, end } = openJournals(home, { isLocked: true })
  for (let n = 0; n < wrongOnes; n++) await audit.append(wrongPassword)
  unlock()
  await audit.closeRun()
  for (let n = 0; n < entries; n++) await audit.append({ ...spent, note: `entry ${n}` })
  await end()
}

/** The results of the next opening and of a verification. */
async function judged(home: string) {
  const { audit, end } = openJournals(home)
  await audit.closeRun()
  const found = { ...(await audit.verify()), damage: audit.damage }
  await end()
  return found
}

/** Entries after the end, written by an attacker who has the file and no key. */
function forge(home: string, events: readonly AuditEvent[], mac = ''): void {
  const rows = logRowsOf(home)
  for (const event of events) {
    const { seq, bytes, hash } = rows.at(-1)!
    const before = { seq, bytes, hash: Buffer.from(hash).toString('hex') }
    const { row } = writeEntry(event, before, '2026-03-01T12:00:00.000Z', undefined)
    rows.push({
      ...row,
      prev: Buffer.from(row.prev, 'hex'),
      hash: Buffer.from(row.hash, 'hex'),
      mac: Buffer.from(mac, 'hex'),
    })
  }
  writeLogRows(home, rows)
}

t.test(
  'what is written while locked is told as a range, and nothing else stands without a code',
  async (t) => {
    for (const other of [spent, { ...spent, action: 'CALL' }, { ...spent, status: 'DENIED' }] as const) {
      const home = t.testdir()
      await session(home, 2)
      await session(home, 1, 3)
      const whole = await judged(home)
      t.match(whole, { ok: true, entries: 7, damage: undefined, authenticated: true })
      t.strictSame(whole.unauthenticated, [{ from: 3, to: 5, count: 3 }])
      forge(home, [wrongPassword, other, wrongPassword])
      const locked = openJournals(home, { isLocked: true })
      const reason = new RegExp(`${other.action} ${other.status}`)
      t.match(await locked.audit.verify(), { ok: false, firstBad: 9, reason, authenticated: false })
      await locked.end()
      t.match(await judged(home), { ok: false, firstBad: 9, damage: /entry 9/ })
      t.match(await judged(home), { ok: false, firstBad: 9 }, 'and for good, whatever follows')
    }
  },
)

t.test('of all events, only those of a locked vault pass without a code', async (t) => {
  const passed: string[] = []
  for (const action of auditActions)
    for (const status of auditStatuses) {
      if (mayHappenLocked({ agent: 'owner', action, status })) passed.push(`${action} ${status}`)
    }
  t.strictSame(passed, ['UNLOCK DENIED', 'UNLOCK FAILED', 'LOCK APPROVED'])
  t.ok(mayHappenLocked({ agent: 'owner', action: 'CONFIG', status: 'APPROVED', note: passwordChanged }))
  const home = t.testdir()
  await session(home, 1)
  const { audit, end } = openJournals(home, { isLocked: true })
  await t.rejects(audit.append(spent), { code: 'VAULT_LOCKED' })
  t.match(await audit.append(wrongPassword), { seq: 2 })
  await end()
})

t.test('a code that is made up is damage before anything is written behind it', async (t) => {
  const home = t.testdir()
  await session(home, 2)
  forge(home, [spent], 'a'.repeat(32))
  t.match(await judged(home), { ok: false, firstBad: 3, damage: /entry 3 was not written/ })
})

t.test('a log that is gone, or its end, or its head, is damage of every vault but a new one', async (t) => {
  const homes = t.testdir()
  for (const [name, remove] of Object.entries<(home: string) => void>({
    'the log': (home) => writeLogRows(home, []),
    'its end': (home) => writeLogRows(home, logRowsOf(home).slice(0, 2)),
    'the head': (home) => rmSync(headOf(home)),
    'the log and the head': (home) => {
      writeLogRows(home, [])
      rmSync(headOf(home))
    },
  })) {
    const home = join(homes, name)
    mkdirSync(home)
    await session(home, 3)
    remove(home)
    const { audit, unlock, end } = openJournals(home, { isLocked: true })
    t.not(audit.damage, undefined, `${name}: told while locked, too`)
    unlock()
    const { seq } = await audit.append(spent)
    t.match(await audit.verify(), { ok: false })
    await end()
    t.match(await judged(home), { ok: false, authenticated: true }, `${name}: and later`)
    t.ok(seq > 3, 'no number is given again')
  }
})

t.test('an older head is damage, and a database that is older than its head is refused', async (t) => {
  const home = t.testdir()
  await session(home, 2)
  const head = readFileSync(headOf(home))
  const { sealed, lineage } = editDatabase(home, (db) => db.prepare('SELECT * FROM state').get())!
  const rows = logRowsOf(home)
  await session(home, 3)
  const newest = readFileSync(headOf(home))
  writeFileSync(headOf(home), head)
  t.match(await judged(home), { ok: true, damage: /head .* is older and names entry 2/ })
  writeFileSync(headOf(home), newest)
  writeLogRows(home, rows)
  editDatabase(home, (db) => db.prepare('UPDATE state SET sealed = ?, lineage = ?').run(sealed!, lineage!))
  const refused = { code: 'VAULT_CORRUPT', message: /vault\.1\.db of the vault is older than audit\.head/ }
  for (let i = 0; i < 3; i++) t.throws(() => openJournals(home), refused, 'however often it is opened')
})

t.test('a head that is replaced while the vault is open is noticed', async (t) => {
  const home = t.testdir()
  const { audit, end } = openJournals(home)
  await audit.append(spent)
  await audit.save()
  const older = readFileSync(headOf(home))
  await audit.append(spent)
  await audit.save()
  writeFileSync(headOf(home), older)
  t.match(await audit.verify(), { ok: false, reason: /older/ })
  await end()
  writeFileSync(headOf(home), older)
  const again = openJournals(home)
  t.match(again.audit.damage, /older/, 'and when it is replaced while the vault is locked')
  await again.end()
})

t.test(
  'each entry dropped, doubled, swapped, or without its code: noticed, or told as a range',
  async (t) => {
    const home = t.testdir()
    await session(home, 2)
    await session(home, 2, 2)
    const rows = logRowsOf(home)
    const head = readFileSync(headOf(home))
    const { sealed } = editDatabase(home, (db) => db.prepare('SELECT sealed FROM state').get())!
    const stripped = (row: LogRow): LogRow => ({ ...row, mac: Buffer.alloc(0) })
    const numbered = (list: LogRow[]) => list.map((row, n) => ({ ...row, seq: n + 1 }))
    for (let at = 0; at < rows.length; at++) {
      const row = rows[at]!
      const edits: Record<string, LogRow[]> = {
        dropped: rows.toSpliced(at, 1),
        'dropped, and the others moved up': numbered(rows.toSpliced(at, 1)),
        doubled: numbered(rows.toSpliced(at, 0, row)),
        swapped: numbered(rows.toSpliced(at, 2, ...rows.slice(at, at + 2).reverse())),
        stripped: rows.with(at, stripped(row)),
        'cut from here': rows.slice(0, at),
        'without codes from here': rows.map((one, n) => (n < at ? one : stripped(one))),
      }
      for (const [edit, after] of Object.entries(edits)) {
        if (edit === 'stripped' && row.mac.length === 0) continue
        if (edit === 'swapped' && at === rows.length - 1) continue
        writeLogRows(home, after)
        const { audit, end } = openJournals(home)
        const found = await audit.verify()
        t.ok(!found.ok || audit.damage !== undefined, `entry ${at + 1} ${edit}`)
        await end()
        writeLogRows(home, rows)
        writeFileSync(headOf(home), head)
        editDatabase(home, (db) => db.prepare('UPDATE state SET sealed = ?').run(sealed!))
      }
    }
    t.match(await judged(home), { ok: true, unauthenticated: [{ from: 3, to: 4, count: 2 }] })
  },
)

t.test('a clock that was turned back is told, and is no damage', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  const { audit, end } = openJournals(home, { clock })
  for (const ms of [0, 5_000, -60_000, 1_000]) {
    clock.wallMs += ms
    await audit.append(spent)
  }
  t.match(await audit.verify(), { ok: true, clockTurnedBack: 3 })
  await end()
})
