import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { holdDisk } from '../../testing/disk.ts'
import type { SealedLogOptions } from './sealedLog.ts'

// After the disk is held: what a module takes from node:fs, it takes once.
const { SealedLog } = await import('./sealedLog.ts')

const masterKey = Buffer.alloc(32, 5)

/** A list of words that is kept in a log. */
function wordLog(folder: string, compactAfterBytes?: number) {
  const words: string[] = []
  const options: SealedLogOptions = {
    file: join(folder, 'words.log'),
    use: 'words',
    vaultId: 'vlt_1',
    masterKey,
    ...(compactAfterBytes === undefined ? {} : { compactAfterBytes }),
    state: {
      snapshot: () => words.map((word) => Buffer.from(word)),
      reset: () => void words.splice(0),
      replay: (payload) => void words.push(payload.toString()),
    },
  }
  return { words, options }
}

function reopened(folder: string): string[] {
  const { words, options } = wordLog(folder)
  const log = SealedLog.open(options)
  void log.close()
  return words
}

async function written(folder: string, initial: string[], appended: string[]): Promise<string> {
  const { words, options } = wordLog(folder)
  words.push(...initial)
  const log = SealedLog.create(options)
  for (const word of appended) {
    words.push(word)
    await log.append(Buffer.from(word))
  }
  await log.close()
  return options.file
}

t.test(
  'whatever is appended, in groups or alone, is there again, with few or many snapshots in between',
  async (t) => {
    const folder = t.testdir()
    const groups = fc.array(fc.array(fc.string({ maxLength: 40 }), { maxLength: 5 }), { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(groups, fc.constantFrom(1, 200, 100_000), async (appends, compactAfterBytes) => {
        const { words, options } = wordLog(folder, compactAfterBytes)
        const log = SealedLog.create(options)
        const add = (word: string) => {
          words.push(word)
          return log.append(Buffer.from(word))
        }
        for (const group of appends) await Promise.all(group.map(add))
        await log.close()
        t.strictSame(reopened(folder), words)
      }),
      { numRuns: 40 },
    )
  },
)

t.test('every changed byte is noticed, wherever in the file it is', async (t) => {
  const folder = t.testdir()
  const file = await written(folder, ['one', 'two'], ['three', '', 'five'])
  const whole = readFileSync(file)
  for (let at = 0; at < whole.length; at++) {
    for (const flip of [0x01, 0x80, whole[at]! || 0xff]) {
      const changed = Buffer.from(whole)
      changed[at]! ^= flip
      writeFileSync(file, changed)
      t.throws(() => reopened(folder), { code: 'VAULT_CORRUPT' }, `byte ${at}, ${flip}`)
    }
  }
})

t.test('a log of a newer format is named as that, and stays as it is', async (t) => {
  const folder = t.testdir()
  const file = await written(folder, ['one'], [])
  const whole = readFileSync(file)
  const newer = Buffer.concat([Buffer.from('TGVLOG02'), whole.subarray(8)])
  writeFileSync(file, newer)
  t.throws(() => reopened(folder), {
    code: 'VAULT_CORRUPT',
    message: /^Expected version 01 of words\.log, got version 02: a newer version of Tollgate wrote it\./,
  })
  t.strictSame(readFileSync(file), newer)
  for (const magic of ['TGVLOG00', 'TGVLOG1x', 'TGVBAK02']) {
    writeFileSync(file, Buffer.concat([Buffer.from(magic), whole.subarray(8)]))
    t.throws(
      () => reopened(folder),
      { code: 'VAULT_CORRUPT', message: /words\.log of the vault is damaged/ },
      magic,
    )
  }
})

t.test('an end that a crash tore off costs what was not acknowledged, and nothing before it', async (t) => {
  const folder = t.testdir()
  const file = await written(folder, ['one'], [])
  const snapshotBytes = statSync(file).size
  const ends: number[] = []
  const { words, options } = wordLog(folder)
  const log = SealedLog.open(options)
  for (const word of ['two', 'three', 'four']) {
    words.push(word)
    await log.append(Buffer.from(word))
    ends.push(statSync(file).size)
  }
  await log.close()
  const whole = readFileSync(file)
  for (let length = 0; length < whole.length; length++) {
    writeFileSync(file, whole.subarray(0, length))
    if (length < snapshotBytes) {
      t.throws(() => reopened(folder), { code: 'VAULT_CORRUPT' }, `${length} bytes: in the snapshot`)
      continue
    }
    const acknowledged = ends.filter((end) => end <= length).length
    t.strictSame(
      reopened(folder),
      ['one', 'two', 'three', 'four'].slice(0, 1 + acknowledged),
      `${length} bytes`,
    )
    t.equal(
      statSync(file).size,
      acknowledged === 0 ? snapshotBytes : ends[acknowledged - 1],
      'the rest is cut away',
    )
  }
  writeFileSync(file, Buffer.concat([whole.subarray(0, ends[1]), Buffer.alloc(4096)]))
  t.strictSame(reopened(folder), ['one', 'two', 'three'], 'blocks that were allocated and never written')
})

t.test('a log is one of its key, its vault and its use', async (t) => {
  const folder = t.testdir()
  await written(folder, ['one'], [])
  const { options } = wordLog(folder)
  for (const other of [{ masterKey: Buffer.alloc(32, 6) }, { vaultId: 'vlt_2' }, { use: 'other' }]) {
    t.throws(() => SealedLog.open({ ...options, ...other }), { code: 'VAULT_CORRUPT' })
  }
})

t.test('the file stays as small as its state, and nothing deleted is left in it', async (t) => {
  const folder = t.testdir()
  const state = { value: 'x' }
  const options = {
    ...wordLog(folder, 2_000).options,
    state: {
      snapshot: () => [Buffer.from(state.value)],
      reset: () => void (state.value = ''),
      replay: (payload: Buffer) => void (state.value = payload.toString()),
    },
  }
  const log = SealedLog.create(options)
  let largest = 0
  for (let i = 0; i < 500; i++) {
    state.value = `value ${i}`
    await log.append(Buffer.from(state.value))
    largest = Math.max(largest, statSync(options.file).size)
  }
  t.ok(largest < 2_500, `${largest} bytes after 500 changes`)
  state.value = 'new'
  await log.appendAndCompact(Buffer.from(state.value))
  t.ok(statSync(options.file).size < 150)
  await log.close()
  t.equal(statSync(options.file).mode & 0o777, 0o600)
})

t.test('on a full disk it takes nothing in part, and goes on as soon as there is room', async (t) => {
  const disk = holdDisk(t)
  const folder = t.testdir()
  const { words, options } = wordLog(folder)
  const log = SealedLog.create(options)
  const add = (word: string) => {
    words.push(word)
    return log.append(Buffer.from(word))
  }
  await add('one')
  const whole = statSync(options.file).size
  for (let room = 0; room < 80; room += 9) {
    disk.room = room
    const refused = await Promise.allSettled([add('lost'), add('lost, too')])
    t.match(
      refused,
      [{ reason: { code: 'STORAGE_UNAVAILABLE' } }, { status: 'rejected' }],
      `${room} bytes left`,
    )
    t.strictSame(words, ['one'], 'the state is what the file says')
    t.equal(statSync(options.file).size, whole, 'half an entry is cut off')
  }
  disk.room = Number.POSITIVE_INFINITY
  await add('two')
  disk.failsFlush = true
  await t.rejects(add('never flushed'), { code: 'STORAGE_UNAVAILABLE' })
  t.strictSame(words, ['one', 'two'], 'whole in the file, and refused all the same')
  disk.failsFlush = false
  await Promise.all([add('three'), add('four')])
  await log.close()
  t.strictSame(reopened(folder), ['one', 'two', 'three', 'four'])
})

t.test('without room for a second file it appends, and what must go is not said to be gone', async (t) => {
  const disk = holdDisk(t)
  const folder = t.testdir()
  const { words, options } = wordLog(folder, 1)
  words.push('x'.repeat(5_000))
  const log = SealedLog.create(options)
  disk.room = 200
  words.push('two')
  await log.append(Buffer.from('two'))
  await t.rejects(log.appendAndCompact(Buffer.from('three')), { code: 'STORAGE_UNAVAILABLE' })
  t.strictSame(readdirSync(folder), ['words.log'], 'no unfinished file takes the room that is left')
  disk.room = Number.POSITIVE_INFINITY
  words.push('four')
  await log.appendAndCompact(Buffer.from('four'))
  await log.close()
  t.strictSame(reopened(folder).slice(1), ['two', 'four'])
})

t.test('a position counts what is on disk, and nothing that is on its way there', async (t) => {
  const folder = t.testdir()
  const { words, options } = wordLog(folder, 200)
  const log = SealedLog.create(options)
  const [lineage, first] = log.position.split('.')
  t.equal(first, '0')
  for (let n = 1; n <= 20; n++) {
    words.push(`word ${n}`)
    const appended = n % 5 === 0 ? log.mark(`mark ${n}`) : log.append(Buffer.from(`word ${n}`))
    if (n % 5 === 0) words.pop()
    t.equal(log.position, `${lineage}.${n - 1}`, 'not before it is there')
    await appended
    t.equal(log.position, `${lineage}.${n}`)
  }
  await log.close()
  const again = SealedLog.open(wordLog(folder).options)
  t.equal(again.position, `${lineage}.20`, 'the same after it was written anew and read again')
  t.equal(again.lastMark, 'mark 20')
  await again.close()
  const other = SealedLog.create(wordLog(t.testdir({})).options)
  t.not(other.position.split('.')[0], lineage, 'another file has another name')
  await other.close()
})

t.test(
  'a process that stood still while it wrote a new file does not put it over that of the next one',
  async (t) => {
    const folder = t.testdir()
    const { words, options } = wordLog(folder, 1)
    let asked = 0
    // It is stopped after it was asked for the first time, and the folder is taken meanwhile.
    const log = SealedLog.create({ ...options, isOurs: () => asked++ === 0 })
    words.push('x'.repeat(50))
    const next = wordLog(folder, 1_000_000)
    const taken = SealedLog.create(next.options)
    next.words.push('newer')
    await taken.append(Buffer.from('newer'))
    await t.rejects(log.appendAndCompact(Buffer.from('older')), { code: 'VAULT_IN_USE' })
    await taken.close()
    t.strictSame(reopened(folder), ['newer'])
  },
)
