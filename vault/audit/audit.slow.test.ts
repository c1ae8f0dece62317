import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import fc from 'fast-check'
import t from 'tap'
import {
  editDatabase,
  openJournals,
  type LogRow as Row,
  logRowsOf as rowsOf,
  writeLogRows as writeRows,
} from '../../test/helpers/vault/journals.ts'
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import { type AuditEvent, auditActions, auditStatuses } from '../ports/audit.ts'

const headOf = (home: string) => join(home, 'audit.head')

/** A separate folder for each of many runs; t.testdir() has one for all of them. */
const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), 'vault-log-'))
  t.teardown(() => rmSync(made, { recursive: true, force: true }))
  return made
}

const signed = (n: number): AuditEvent => ({
  agent: `agent-${n % 3}`,
  action: n % 2 === 0 ? 'SIGN' : 'READ',
  status: n % 5 === 0 ? 'DENIED' : 'AUTO_APPROVED',
  amount: `${n}.5`,
  currency: 'USDC',
  note: `entry ${n}`,
})

/** A closed log with this many entries. */
async function written(home: string, entries: number, keyByte = 4): Promise<void> {
  const { audit, end } = openJournals(home, { keyByte })
  for (let n = 1; n <= entries; n++) await audit.append(signed(n))
  await end()
}

async function verdict(home: string, wasReleased = true) {
  const { audit, end } = openJournals(home, { wasReleased })
  const found = { ...(await audit.verify()), damage: audit.damage }
  await end()
  return found
}

const event: fc.Arbitrary<AuditEvent> = fc.record(
  {
    agent: fc.string({ unit: 'binary', maxLength: 20 }),
    action: fc.constantFrom(...auditActions),
    status: fc.constantFrom(...auditStatuses),
    amount: fc.string({ maxLength: 5 }),
    scope: fc.string({ unit: 'binary', maxLength: 20 }),
    recipient: fc.string(),
    approvalId: fc.string(),
    decisionHash: fc.string(),
    note: fc.string({ unit: 'binary', maxLength: 600 }),
  },
  { requiredKeys: ['agent', 'action', 'status'] },
)

t.test('whatever is logged reads back, verifies, and goes on after closing', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(event, { maxLength: 5 }), { maxLength: 5 }), async (sessions) => {
      const home = folder()
      let count = 0
      for (const events of sessions) {
        const { audit, end } = openJournals(home)
        const entries = await Promise.all(events.map((one) => audit.append(one)))
        t.strictSame(
          entries.map(({ seq }) => seq),
          events.map((_, i) => count + 1 + i),
        )
        count += events.length
        t.match(await audit.verify(), { ok: true, entries: count, authenticated: true })
        const page = await audit.query({ limit: 500 })
        t.equal(page.entries.length, count)
        t.strictSame(page.entries.slice(0, entries.length), entries.toReversed())
        t.equal(audit.damage, undefined)
        await end()
      }
    }),
    { numRuns: 25 },
  )
})

t.test('a changed byte anywhere in an entry or in the head is noticed, and the entry is named', async (t) => {
  const home = t.testdir()
  await written(home, 2)
  const rows = rowsOf(home)
  const head = readFileSync(headOf(home))
  const { sealed } = editDatabase(home, (db) => db.prepare('SELECT sealed FROM state').get())!
  const restore = () => {
    writeRows(home, rows)
    writeFileSync(headOf(home), head)
    editDatabase(home, (db) => db.prepare('UPDATE state SET sealed = ?').run(sealed!))
  }
  for (const [n, row] of rows.entries())
    for (const column of ['prev', 'body', 'hash', 'mac'] as const)
      for (let at = 0; at < row[column].length; at += column === 'mac' ? 5 : 11) {
        const changed = Buffer.from(row[column])
        changed[at]! ^= 0x01
        writeRows(home, rows.with(n, { ...row, [column]: changed }))
        const found = await verdict(home)
        const isNamed = !found.ok && found.firstBad === n + 1 && found.damage !== undefined
        if (!isNamed) t.fail(`entry ${n + 1}, ${column} byte ${at}: ${JSON.stringify(found)}`)
        restore()
      }
  for (let at = 0; at < head.length; at += 5) {
    const changed = Buffer.from(head)
    changed[at]! ^= 0x01
    writeFileSync(headOf(home), changed)
    const { damage } = await verdict(home)
    if (damage === undefined) t.fail(`head byte ${at}`)
    restore()
  }
  t.match(await verdict(home), { ok: true, entries: 2, damage: undefined }, 'and put back, all is well')
})

/** What an attacker with write access, who knows everything but the key, could do to a list of entries. */
const edit = fc.record({
  kind: fc.constantFrom('drop', 'repeat', 'swap', 'rewrite', 'cut', 'forge to the end'),
  at: fc.nat(),
})

t.test('after any edit, verify names the first entry that is not the one that was written', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 2, max: 12 }), edit, async (count, { kind, at }) => {
      const home = folder()
      await written(home, count)
      const before = rowsOf(home)
      const i = at % count
      let after = [...before]
      if (kind === 'drop') after.splice(i, 1)
      if (kind === 'repeat') after.splice(i, 0, before[i]!)
      if (kind === 'swap') [after[i], after[(i + 1) % count]] = [before[(i + 1) % count]!, before[i]!]
      if (kind === 'rewrite')
        after[i] = { ...before[i]!, body: Buffer.from(textOf(before[i]!).replace('USDC', 'USDT')) }
      if (kind === 'cut') after.splice(i)
      if (kind === 'forge to the end') after.splice(i, count, ...(await forged(count, i)))
      // A row's number is its position: an omitted row leaves a gap, unless the following rows move up.
      if (kind === 'repeat' || kind === 'swap') after = after.map((row, n) => ({ ...row, seq: n + 1 }))
      writeRows(home, after)
      const same = (row: Row, n: number) => after[n]?.seq === row.seq && textOf(after[n]!) === textOf(row)
      const firstBad = 1 + before.findIndex((row, n) => !same(row, n))
      const found = await verdict(home)
      t.match(
        found,
        { ok: false, authenticated: true, firstBad: firstBad === 0 ? count + 1 : firstBad },
        kind,
      )
    }),
    { numRuns: 40 },
  )
})

const textOf = ({ body }: Row): string => Buffer.from(body).toString('utf8')

/** The entries from one on, rewritten as a complete chain with another vault's key. */
async function forged(count: number, from: number): Promise<Row[]> {
  const home = folder()
  const { audit, end } = openJournals(home, { keyByte: 9 })
  for (let n = 1; n <= count; n++) await audit.append({ ...signed(n), ...(n > from ? { amount: '0' } : {}) })
  await end()
  return rowsOf(home).slice(from)
}

t.test('lost entries at the end are damage that stays named, and the log goes on behind them', async (t) => {
  const home = t.testdir()
  await written(home, 30)
  writeRows(home, rowsOf(home).slice(0, 25))
  const { audit, end } = openJournals(home)
  t.match(audit.damage, /26 to 30 are missing at the end/)
  const { seq } = await audit.append(signed(99))
  t.equal(seq, 31, 'no number is given again')
  t.match(await audit.verify(), { ok: false, firstBad: 26 })
  await end()
  t.match(await verdict(home), { ok: false, firstBad: 26, damage: undefined }, 'later too')
})

t.test('an entry missing in the middle, the head missing, keys of another vault: each is told', async (t) => {
  const missing = folder()
  await written(missing, 30)
  writeRows(
    missing,
    rowsOf(missing).filter(({ seq }) => seq !== 12),
  )
  t.match(await verdict(missing), { ok: false, firstBad: 12, damage: /12 to 12 are missing/ })

  const headless = folder()
  await written(headless, 3)
  rmSync(headOf(headless))
  t.match(await verdict(headless), { damage: /head .* is missing/ })

  const foreign = folder()
  await written(foreign, 3)
  t.throws(() => openJournals(foreign, { keyByte: 1 }), { code: 'VAULT_CORRUPT' })
})

t.test('entries that are written while locked are vouched for by the next one', async (t) => {
  const home = t.testdir()
  await written(home, 2)
  const { audit, unlock, end } = openJournals(home, { isLocked: true })
  for (let n = 0; n < 3; n++) await audit.append({ agent: 'owner', action: 'UNLOCK', status: 'FAILED' })
  t.match(await audit.verify(), { ok: true, entries: 5, authenticated: false })
  unlock()
  await audit.append({ agent: 'owner', action: 'UNLOCK', status: 'APPROVED' })
  t.match(await audit.verify(), { ok: true, entries: 6, authenticated: true })
  await end()
  const rows = rowsOf(home)
  const other = (await forged(5, 2)).map((row) => ({ ...row, mac: Buffer.alloc(0) }))
  writeRows(home, [...rows.slice(0, 2), ...other, rows[5]!])
  t.match(await verdict(home), { ok: false, firstBad: 3 })
})

t.test('a query is newest first, filtered, and pages through everything once', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  const { audit: log, end } = openJournals(home, { clock })
  for (let n = 1; n <= 60; n++) {
    await log.append(n % 7 === 0 ? { ...signed(n), scope: 'identity.name' } : signed(n))
    clock.pass(1_000)
  }
  const all = async (query: Parameters<typeof log.query>[0]) => {
    const seqs: number[] = []
    let cursor: string | undefined
    do {
      const page = await log.query({ ...query, ...(cursor === undefined ? {} : { cursor }) })
      seqs.push(...page.entries.map(({ seq }) => seq))
      cursor = page.cursor
    } while (cursor !== undefined)
    return seqs
  }
  const numbers = (keep: (n: number) => boolean) =>
    Array.from({ length: 60 }, (_, i) => 60 - i).filter((n) => keep(n))
  t.strictSame(
    await all({ limit: 7 }),
    numbers(() => true),
  )
  t.strictSame(
    await all({ limit: 1, agent: 'agent-1' }),
    numbers((n) => n % 3 === 1),
  )
  t.strictSame(
    await all({ action: 'SIGN', status: 'DENIED' }),
    numbers((n) => n % 10 === 0),
  )
  t.strictSame(
    await all({ scope: 'identity.name' }),
    numbers((n) => n % 7 === 0),
  )
  const since = '2026-03-01T12:00:09.000Z'
  t.strictSame(
    await all({ since, until: '2026-03-01T12:00:19Z' }),
    numbers((n) => n >= 10 && n < 20),
  )
  t.strictSame(await all({ agent: 'nobody' }), [])
  for (const wrong of [
    { limit: 0 },
    { limit: 501 },
    { limit: 1.5 },
    { cursor: 'x' },
    { since: 'yesterday' },
    { until: '' },
  ]) {
    await t.rejects(log.query(wrong), { code: 'VALIDATION_ERROR' }, JSON.stringify(wrong))
  }
  await end()
})

t.test(
  'a query that looks through much lets everything else have its turn, and goes on by pages',
  async (t) => {
    const home = t.testdir()
    const { audit: log, end } = openJournals(home)
    const first = await log.append({ ...signed(1), scope: 'custom.first' })
    for (let files = 0; files < 5; files++)
      await Promise.all(Array.from({ length: 5_000 }, (_, n) => log.append(signed(n))))
    let turns = 0
    let isOver = false
    const count = (): void => {
      turns++
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    const none = { entries: { length: 0 }, cursor: /^\d+$/ }
    const page = await log.query({ until: '2000-01-01' })
    t.match(page, none)
    t.ok(turns > 20, `${turns} turns`)
    isOver = true
    t.match(await log.query({ until: '2000-01-01', cursor: page.cursor! }), {
      entries: { length: 0 },
      cursor: undefined,
    })
    t.match(
      await log.query({ scope: 'custom.first' }),
      { entries: [first] },
      'lines of others are passed over',
    )
    await end()
  },
)

t.test('texts that are too long are cut rather than refused, and never span lines', async (t) => {
  const home = t.testdir()
  const { audit: log, end } = openJournals(home)
  const { note, agent } = await log.append({ ...signed(1), agent: 'a\n"},{"seq":9', note: 'x'.repeat(9_000) })
  t.equal(note!.length, 500)
  t.equal(agent, 'a\n"},{"seq":9')
  t.match(await log.verify(), { ok: true, entries: 1 })
  await end()
})

const writer = `
import { openJournals } from ${JSON.stringify(import.meta.resolve('../../test/helpers/vault/journals.ts'))}
const { audit } = openJournals(process.argv[1], { wasReleased: false })
const write = async () => {
  for (;;) {
    const { seq } = await audit.append({ agent: 'a', action: 'SIGN', status: 'APPROVED', note: 'x' })
    process.stdout.write(seq + '\\n')
  }
}
for (let i = 0; i < 8; i++) write()
`

t.test('killed in the middle of writing, it loses no entry that was acknowledged', async (t) => {
  const home = t.testdir()
  await written(home, 0)
  let last = 0
  for (let round = 0; round < 5; round++) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', writer, home], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let seen = 0
    for await (const line of createInterface({ input: child.stdout })) {
      last = Math.max(last, Number(line))
      if (++seen === 200 + round * 13) child.kill('SIGKILL')
    }
    const found = await verdict(home, false)
    t.match(found, { ok: true, authenticated: true, damage: undefined })
    t.ok(found.entries >= last, `${found.entries} entries, ${last} acknowledged`)
  }
})
