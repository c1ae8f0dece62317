import { appendFileSync, cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type AuditEvent, type AuditMark, auditActions, auditStatuses } from '../ports/audit.ts'
import { ManualClock } from '../testing/manualClock.ts'
import { firstHash, mayHappenLocked, passwordChanged, readLine, writeLine } from './auditLine.ts'
import { ChainedAuditLog } from './chainedAuditLog.ts'

const key = Buffer.alloc(32, 4)
const wrongPassword: AuditEvent = { agent: 'owner', action: 'UNLOCK', status: 'DENIED' }
const spent: AuditEvent = { agent: 'a', action: 'SIGN', status: 'APPROVED', amount: '5', currency: 'USDC' }
const headOf = (home: string) => join(home, 'audit.head')
const filesOf = (home: string) => readdirSync(join(home, 'audit')).map((name) => join(home, 'audit', name))
const linesOf = (home: string) => readFileSync(filesOf(home)[0]!, 'utf8').trimEnd().split('\n')
const rewrite = (home: string, lines: readonly string[]) =>
  writeFileSync(filesOf(home)[0]!, lines.map((line) => `${line}\n`).join(''))

/** What a vault keeps elsewhere of its log. */
interface Memory {
  mark?: AuditMark
}

function openLog(home: string, memory: Memory = {}, clock = new ManualClock()): ChainedAuditLog {
  return ChainedAuditLog.open({
    folder: join(home, 'audit'),
    headFile: headOf(home),
    clock,
    isNew: !existsSync(headOf(home)) && !existsSync(join(home, 'audit')),
    remember: (mark) => void (memory.mark = mark),
  })
}

/** One session of an open vault; wrong passwords before it. */
async function session(home: string, memory: Memory, entries: number, wrongOnes = 0): Promise<void> {
  const log = openLog(home, memory)
  for (let n = 0; n < wrongOnes; n++) await log.append(wrongPassword)
  log.unlock(key, memory.mark)
  await log.closeRun()
  for (let n = 0; n < entries; n++) await log.append({ ...spent, note: `entry ${n}` })
  await log.save()
  await log.close()
}

/** What the next opening and a check say. */
async function judged(home: string, memory: Memory = {}) {
  const log = openLog(home, memory)
  log.unlock(key, memory.mark)
  await log.closeRun()
  const found = { ...(await log.verify()), damage: log.damage }
  await log.close()
  return found
}

/** Entries behind the end, as somebody writes them who has the files and no key. */
function forge(home: string, events: readonly AuditEvent[], mac = ''): void {
  let last = readLine(Buffer.from(linesOf(home).at(-1)!))!
  for (const event of events) {
    const place = { seq: last.seq + 1, prev: last.hash, timestamp: '2026-03-01T12:00:00.000Z' }
    const { line } = writeLine(event, place, undefined)
    appendFileSync(filesOf(home)[0]!, line.toString().replace('"mac":""', `"mac":"${mac}"`))
    last = readLine(line.subarray(0, -1))!
  }
}

t.test(
  'what is written while locked is told as a range, and nothing else stands without a code',
  async (t) => {
    for (const other of [spent, { ...spent, action: 'CALL' }, { ...spent, status: 'DENIED' }] as const) {
      const home = t.testdir()
      const memory: Memory = {}
      await session(home, memory, 2)
      await session(home, memory, 1, 3)
      const whole = await judged(home, memory)
      t.match(whole, { ok: true, entries: 7, damage: undefined, authenticated: true })
      t.strictSame(whole.unauthenticated, [{ from: 3, to: 5, count: 3 }])
      forge(home, [wrongPassword, other, wrongPassword])
      const locked = openLog(home)
      const reason = new RegExp(`${other.action} ${other.status}`)
      t.match(await locked.verify(), { ok: false, firstBad: 9, reason, authenticated: false })
      await locked.close()
      t.match(await judged(home, memory), { ok: false, firstBad: 9, damage: /entry 9/ })
      t.match(await judged(home, memory), { ok: false, firstBad: 9 }, 'and for good, whatever follows')
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
  await session(home, {}, 1)
  const log = openLog(home)
  await t.rejects(log.append(spent), { code: 'VAULT_LOCKED' })
  t.match(await log.append(wrongPassword), { seq: 2 })
  await log.close()
})

t.test('a code that is made up is damage before anything is written behind it', async (t) => {
  const home = t.testdir()
  const memory: Memory = {}
  await session(home, memory, 2)
  forge(home, [spent], 'a'.repeat(32))
  t.match(await judged(home, memory), { ok: false, firstBad: 3, damage: /entry 3 was not written/ })
})

t.test('a log that is gone, or its files, or its head, is damage of every vault but a new one', async (t) => {
  const homes = t.testdir()
  // Without what other files remember of the log, and with it.
  for (const [name, gone] of Object.entries({
    everything: ['audit', 'audit.head'],
    'the log': ['audit'],
    'the head': ['audit.head'],
    'the newest file': ['audit/000000000000001.jsonl'],
  }))
    for (const memory of [undefined, {} as Memory]) {
      const home = join(homes, `${name} ${memory !== undefined}`)
      await session(home, memory ?? {}, 3)
      for (const path of gone) rmSync(join(home, path), { recursive: true })
      const log = ChainedAuditLog.open({
        folder: join(home, 'audit'),
        headFile: headOf(home),
        clock: new ManualClock(),
      })
      t.not(log.damage, undefined, `${name}: told while locked, too`)
      log.unlock(key, memory?.mark)
      const { seq } = await log.append(spent)
      t.match(await log.verify(), { ok: false })
      await log.close()
      t.match(await judged(home, memory), { ok: false, authenticated: true }, `${name}: and later`)
      if (memory !== undefined) t.ok(seq > 3, 'no number is given again')
    }
})

t.test('an older copy of the log, of its head, or of both is noticed', async (t) => {
  for (const parts of [['audit'], ['audit.head'], ['audit', 'audit.head']]) {
    const homes = t.testdir()
    const home = join(homes, 'now')
    const older = join(homes, 'older')
    const memory: Memory = {}
    await session(home, memory, 2)
    cpSync(home, older, { recursive: true })
    await session(home, memory, 3)
    for (const part of parts) {
      rmSync(join(home, part), { recursive: true })
      cpSync(join(older, part), join(home, part), { recursive: true })
    }
    const found = await judged(home, memory)
    t.match(
      found.damage,
      parts.includes('audit') ? /entries 3 to 5 are missing/ : /older/,
      parts.join(' and '),
    )
    if (parts.includes('audit')) t.match(await judged(home, memory), { ok: false, firstBad: 3 }, 'and later')
  }
})

t.test('a head that is replaced while the vault is open is noticed', async (t) => {
  const home = t.testdir()
  const log = openLog(home)
  log.unlock(key)
  await log.append(spent)
  await log.save()
  const older = readFileSync(headOf(home))
  await log.append(spent)
  await log.save()
  writeFileSync(headOf(home), older)
  t.match(await log.verify(), { ok: false, reason: /older/ })
  await log.lock()
  writeFileSync(headOf(home), older)
  log.unlock(key)
  t.match(log.damage, /older/, 'and when it is replaced while the vault is locked')
  await log.close()
})

t.test('each line dropped, doubled, swapped, or without its code: noticed, or told as a range', async (t) => {
  const home = t.testdir()
  const memory: Memory = {}
  await session(home, memory, 2)
  await session(home, memory, 2, 2)
  const lines = linesOf(home)
  const files = [...filesOf(home), headOf(home)].map((file) => [file, readFileSync(file)] as const)
  const stripped = (line: string) => line.replace(/"mac":"\w*"/, '"mac":""')
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!
    const edits: Record<string, string[]> = {
      dropped: lines.toSpliced(at, 1),
      doubled: lines.toSpliced(at, 0, line),
      swapped: lines.toSpliced(at, 2, ...lines.slice(at, at + 2).reverse()),
      stripped: lines.with(at, stripped(line)),
      'cut from here': lines.slice(0, at),
      'without codes from here': lines.map((one, n) => (n < at ? one : stripped(one))),
    }
    for (const [edit, after] of Object.entries(edits)) {
      if (after.join() === lines.join()) continue
      rewrite(home, after)
      const log = openLog(home, {})
      log.unlock(key, memory.mark)
      const found = await log.verify()
      await log.close()
      t.equal(found.ok, false, `entry ${at + 1} ${edit}`)
      for (const file of filesOf(home)) rmSync(file)
      for (const [file, bytes] of files) writeFileSync(file, bytes)
    }
  }
  t.match(await judged(home, memory), { ok: true, unauthenticated: [{ from: 3, to: 4, count: 2 }] })
})

t.test('a clock that was turned back is told, and is no damage', async (t) => {
  const home = t.testdir()
  const clock = new ManualClock()
  const log = openLog(home, {}, clock)
  log.unlock(key)
  for (const ms of [0, 5_000, -60_000, 1_000]) {
    clock.wallMs += ms
    await log.append(spent)
  }
  t.match(await log.verify(), { ok: true, clockTurnedBack: 3 })
  await log.close()
})

t.test(
  'a log of the version before, with entries from while it was locked, verifies and tells them',
  async (t) => {
    const home = t.testdir({ audit: {} })
    // As that version wrote it: codes only while unlocked, a head without more than number and hash.
    const file = join(home, 'audit', '000000000000001.jsonl')
    let prev = firstHash
    let seq = 0
    const write = (event: AuditEvent, macKey: Buffer | undefined) => {
      const { line, entry } = writeLine(
        event,
        { seq: ++seq, prev, timestamp: '2026-02-01T12:00:00.000Z' },
        macKey,
      )
      appendFileSync(file, line)
      prev = entry.hash
    }
    write(spent, key)
    write(wrongPassword, undefined)
    write({ agent: 'owner', action: 'UNLOCK', status: 'APPROVED' }, key)
    write(wrongPassword, undefined)
    const { createHmac } = await import('node:crypto')
    const mac = createHmac('sha256', key).update(`head ${seq} ${prev}`).digest('hex')
    writeFileSync(headOf(home), `${JSON.stringify({ seq, hash: prev, mac })}\n`)
    t.match(await judged(home), {
      ok: true,
      entries: 4,
      damage: undefined,
      unauthenticated: [
        { from: 2, to: 2, count: 1 },
        { from: 4, to: 4, count: 1 },
      ],
    })
  },
)
