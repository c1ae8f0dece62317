import { spawn } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import fc from 'fast-check'
import t from 'tap'
import { type AuditEvent, auditActions, auditStatuses } from '../ports/audit.ts'
import { ManualClock } from '../testing/manualClock.ts'
import { ChainedAuditLog } from './chainedAuditLog.ts'

const key = Buffer.alloc(32, 4)
const headOf = (home: string) => join(home, 'audit.head')
const filesOf = (home: string) => readdirSync(join(home, 'audit')).map((name) => join(home, 'audit', name))

function openLog(
  home: string,
  options: { segmentBytes?: number; clock?: ManualClock; locked?: boolean } = {},
) {
  const { clock = new ManualClock(), locked = false, ...more } = options
  const isNew = !existsSync(join(home, 'audit'))
  const log = ChainedAuditLog.open({
    folder: join(home, 'audit'),
    headFile: headOf(home),
    clock,
    isNew,
    ...more,
  })
  if (!locked) log.unlock(key)
  return log
}

const signed = (n: number): AuditEvent => ({
  agent: `agent-${n % 3}`,
  action: n % 2 === 0 ? 'SIGN' : 'READ',
  status: n % 5 === 0 ? 'DENIED' : 'AUTO_APPROVED',
  amount: `${n}.5`,
  currency: 'USDC',
  note: `entry ${n}`,
})

/** A closed log of so many entries. */
async function written(home: string, entries: number, segmentBytes?: number): Promise<void> {
  const log = openLog(home, segmentBytes === undefined ? {} : { segmentBytes })
  for (let n = 1; n <= entries; n++) await log.append(signed(n))
  await log.close()
}

async function verdict(home: string) {
  const log = openLog(home)
  const found = { ...(await log.verify()), damage: log.damage }
  await log.close()
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
      const home = t.testdir()
      let count = 0
      for (const events of sessions) {
        const log = openLog(home, { segmentBytes: 300 })
        const entries = await Promise.all(events.map((one) => log.append(one)))
        t.strictSame(
          entries.map(({ seq }) => seq),
          events.map((_, i) => count + 1 + i),
        )
        count += events.length
        t.match(await log.verify(), { ok: true, entries: count, authenticated: true })
        const page = await log.query({ limit: 500 })
        t.equal(page.entries.length, count)
        t.strictSame(page.entries.slice(0, entries.length), entries.toReversed())
        t.equal(log.damage, undefined)
        await log.close()
      }
    }),
    { numRuns: 25 },
  )
})

t.test('every changed byte of the log or of its head is noticed, and the entry is named', async (t) => {
  const home = t.testdir()
  await written(home, 2)
  for (const file of [...filesOf(home), headOf(home)]) {
    const whole = readFileSync(file)
    for (let at = 0; at < whole.length; at++) {
      const changed = Buffer.from(whole)
      changed[at]! ^= 0x01
      writeFileSync(file, changed)
      const log = openLog(home, { locked: true })
      log.unlock(key)
      const found = await log.verify()
      await log.close()
      for (const made of filesOf(home)) if (statSync(made).size === 0) rmSync(made)
      writeFileSync(file, whole)
      if (file !== headOf(home)) writeFileSync(headOf(home), headBytes(home))
      const entry = whole.subarray(0, at).filter((byte) => byte === 10).length + 1
      const isNamed = file === headOf(home) ? log.damage !== undefined : !found.ok && found.firstBad === entry
      if (!isNamed) t.fail(`${file} byte ${at}: ${JSON.stringify(found)} ${log.damage}`)
    }
  }
  t.match(await verdict(home), { ok: true, entries: 2 }, 'and put back, all is well')
})

/** The head of an untouched log is the same each time it is written. */
let savedHead: Buffer | undefined
function headBytes(home: string): Buffer {
  savedHead ??= readFileSync(headOf(home))
  return savedHead
}

/** What somebody who can write the files, and knows all but the key, could do to a list of lines. */
const edit = fc.oneof(
  fc.record({ kind: fc.constant('drop' as const), at: fc.nat() }),
  fc.record({ kind: fc.constant('repeat' as const), at: fc.nat() }),
  fc.record({ kind: fc.constant('swap' as const), at: fc.nat() }),
  fc.record({ kind: fc.constant('rewrite' as const), at: fc.nat() }),
  fc.record({ kind: fc.constant('cut' as const), at: fc.nat() }),
  fc.record({ kind: fc.constant('forge to the end' as const), at: fc.nat() }),
)

t.test('after any edit, verify names the first entry that is not the one that was written', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 2, max: 12 }), edit, async (count, { kind, at }) => {
      const home = t.testdir()
      await written(home, count)
      const [file] = filesOf(home)
      const before = readFileSync(file!, 'utf8').trimEnd().split('\n')
      const i = at % count
      const after = [...before]
      if (kind === 'drop') after.splice(i, 1)
      if (kind === 'repeat') after.splice(i, 0, before[i]!)
      if (kind === 'swap') [after[i], after[(i + 1) % count]] = [before[(i + 1) % count]!, before[i]!]
      if (kind === 'rewrite') after[i] = before[i]!.replace('USDC', 'USDT')
      if (kind === 'cut') after.splice(i)
      if (kind === 'forge to the end')
        after.splice(i, count, ...(await forged(join(home, 'other'), before, i)))
      fc.pre(after.join() !== before.join())
      writeFileSync(file!, after.map((line) => `${line}\n`).join(''))
      const firstBad = 1 + before.findIndex((line, n) => after[n] !== line)
      const found = await verdict(home)
      t.match(
        found,
        { ok: false, authenticated: true, firstBad: firstBad === 0 ? count + 1 : firstBad },
        kind,
      )
    }),
    { numRuns: 60 },
  )
})

/** The entries from one on, written again with a whole chain by another vault's key. */
async function forged(home: string, lines: string[], from: number): Promise<string[]> {
  const log = ChainedAuditLog.open({
    folder: join(home, 'audit'),
    headFile: headOf(home),
    clock: new ManualClock(),
  })
  log.unlock(Buffer.alloc(32, 9))
  for (let n = 1; n <= lines.length; n++)
    await log.append({ ...signed(n), ...(n > from ? { amount: '0' } : {}) })
  await log.close()
  return readFileSync(filesOf(home)[0]!, 'utf8').trimEnd().split('\n').slice(from)
}

t.test('lost ends and files are damage that stays named, and the log goes on behind it', async (t) => {
  const home = t.testdir()
  await written(home, 30, 1_000)
  const files = filesOf(home)
  t.ok(files.length > 3, 'several files')
  rmSync(files.at(-1)!)
  const log = openLog(home)
  t.match(log.damage, /missing at the end/)
  const { seq } = await log.append(signed(99))
  t.equal(seq, 31, 'no number is given again')
  const firstLost = Number(/(\d+)\.jsonl$/.exec(files.at(-1)!)![1])
  t.match(await log.verify(), { ok: false, firstBad: firstLost })
  await log.close()
  t.match(await verdict(home), { ok: false, firstBad: firstLost, damage: undefined }, 'later too')
})

t.test('the middle file missing, the head missing, the head of another vault: each is told', async (t) => {
  const missing = t.testdir()
  await written(missing, 30, 1_000)
  const files = filesOf(missing)
  rmSync(files[1]!)
  t.match(await verdict(missing), { ok: false, firstBad: Number(/(\d+)\.jsonl$/.exec(files[1]!)![1]) })

  const headless = t.testdir()
  await written(headless, 3)
  rmSync(headOf(headless))
  t.match(await verdict(headless), { damage: /head .* is missing/ })

  const foreign = t.testdir()
  await written(foreign, 3)
  const log = openLog(foreign, { locked: true })
  log.unlock(Buffer.alloc(32, 1))
  t.match(log.damage, /not written by this vault/)
  await log.close()
})

t.test('an end that a crash tore off is cut away, unless the head says that it was on disk', async (t) => {
  const home = t.testdir()
  await written(home, 3)
  const [file] = filesOf(home)
  const whole = readFileSync(file!)
  const line = whole.subarray(0, whole.indexOf(10))
  for (let length = 1; length < line.length; length += 7) {
    appendFileSync(file!, line.subarray(0, length))
    t.match(
      await verdict(home),
      { ok: true, entries: 3, damage: undefined },
      `${length} bytes of another entry`,
    )
    t.equal(statSync(file!).size, whole.length)
  }
  appendFileSync(file!, Buffer.alloc(4096))
  t.match(await verdict(home), { ok: true, entries: 3, damage: undefined }, 'blocks that were never written')
  writeFileSync(file!, whole.subarray(0, -5))
  t.match(await verdict(home), { ok: false, firstBad: 3, damage: /cut off/ }, 'acknowledged, so not a crash')
})

t.test('entries that are written while locked are vouched for by the next one', async (t) => {
  const home = t.testdir()
  await written(home, 2)
  const log = openLog(home, { locked: true })
  for (let n = 0; n < 3; n++) await log.append({ agent: 'owner', action: 'UNLOCK', status: 'FAILED' })
  t.match(await log.verify(), { ok: true, entries: 5, authenticated: false })
  log.unlock(key)
  await log.append({ agent: 'owner', action: 'UNLOCK', status: 'APPROVED' })
  t.match(await log.verify(), { ok: true, entries: 6, authenticated: true })
  await log.close()
  const [file] = filesOf(home)
  const lines = readFileSync(file!, 'utf8').trimEnd().split('\n')
  const other = await forged(join(home, 'other'), lines, 2)
  const stripped = other.map((line) => line.replace(/"mac":"\w*"/, '"mac":""'))
  writeFileSync(file!, [...lines.slice(0, 2), ...stripped.slice(0, 3), lines[5], ''].join('\n'))
  t.match(await verdict(home), { ok: false, firstBad: 3 })
})

t.test('a query is newest first, filtered, and pages through everything once', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  const log = openLog(home, { clock, segmentBytes: 2_000 })
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
  await log.close()
})

t.test(
  'a query that looks through much lets everything else have its turn, and goes on by pages',
  async (t) => {
    const home = t.testdir()
    const log = openLog(home, { segmentBytes: 1_000_000 })
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
    await log.close()
  },
)

t.test('texts that are too long are cut rather than refused, and never span lines', async (t) => {
  const home = t.testdir()
  const log = openLog(home)
  const { note, agent } = await log.append({ ...signed(1), agent: 'a\n"},{"seq":9', note: 'x'.repeat(9_000) })
  t.equal(note!.length, 500)
  t.equal(agent, 'a\n"},{"seq":9')
  t.match(await log.verify(), { ok: true, entries: 1 })
  await log.close()
})

const writer = `
import { ChainedAuditLog } from ${JSON.stringify(import.meta.resolve('./chainedAuditLog.ts'))}
const [folder, headFile] = process.argv.slice(1)
const log = ChainedAuditLog.open({ folder, headFile, clock: { now: () => 1e12 }, segmentBytes: 20000 })
log.unlock(Buffer.alloc(32, 4))
const write = async () => {
  for (;;) {
    const { seq } = await log.append({ agent: 'a', action: 'SIGN', status: 'APPROVED', note: 'x'.repeat(seq => 1) })
    process.stdout.write(seq + '\\n')
  }
}
for (let i = 0; i < 8; i++) write()
`.replace("note: 'x'.repeat(seq => 1)", "note: 'x'")

t.test('killed in the middle of writing, it loses no entry that was acknowledged', async (t) => {
  const home = t.testdir()
  await written(home, 0)
  let last = 0
  for (let round = 0; round < 5; round++) {
    const child = spawn(
      process.execPath,
      ['--input-type=module', '-e', writer, join(home, 'audit'), headOf(home)],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    let seen = 0
    for await (const line of createInterface({ input: child.stdout })) {
      last = Math.max(last, Number(line))
      if (++seen === 200 + round * 13) child.kill('SIGKILL')
    }
    const found = await verdict(home)
    t.match(found, { ok: true, authenticated: true, damage: undefined })
    t.ok(found.entries >= last, `${found.entries} entries, ${last} acknowledged`)
  }
})

t.test('opening looks at the newest file only', async (t) => {
  const home = t.testdir()
  await written(home, 40, 1_000)
  for (const file of filesOf(home).slice(0, -1)) writeFileSync(file, 'not looked at')
  const log = openLog(home, { segmentBytes: 1_000 })
  t.equal(log.damage, undefined)
  t.equal((await log.append(signed(41))).seq, 41)
  t.match(await log.verify(), { ok: false, firstBad: 1 })
  await log.close()
})
