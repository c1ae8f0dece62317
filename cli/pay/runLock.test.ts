import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { CommandLock } from '../../buyer/keptPayments.ts'
import { takeHome } from '../../vault/storage/disk/homeLock.ts'
import { lockCommand } from './paymentFiles.ts'

/** A lock as a process of another container on this machine would have written it. */
function moveElsewhere(folder: string): string {
  const file = join(folder, readdirSync(folder)[0]!)
  const owner = JSON.parse(readFileSync(file, 'utf8').split(' ')[0]!)
  const body = JSON.stringify({ ...owner, pidNamespace: 'pid:[1]' })
  writeFileSync(file, `${body} ${createHash('sha256').update(body).digest('hex')}`)
  return file
}

let looks = 0
const look = async () => void looks++
t.beforeEach(() => {
  looks = 0
})

t.test('a lock of this machine is never watched: its process is asked about', async (t) => {
  const dir = join(t.testdir(), 'payments')
  const lock = await lockCommand(dir, 'a', look)
  t.equal(await lockCommand(dir, 'a', look), undefined)
  t.equal(looks, 0)
  t.ok(lock!.isOurs())
  lock!.release()
  const next = await lockCommand(dir, 'a', look)
  t.ok(next)
  next!.release()
})

t.test('a lock that a killed container left is taken by one run, and its own finds out', async (t) => {
  const dir = join(t.testdir(), 'payments')
  const folder = `${dir}-locks/a`
  mkdirSync(folder, { recursive: true })
  // It never beats, as after kill -9.
  const left = takeHome(folder)
  moveElsewhere(folder)
  const both = await Promise.all([lockCommand(dir, 'a', look), lockCommand(dir, 'a', look)])
  const taken = both.filter((lock): lock is CommandLock => lock !== undefined)
  t.equal(taken.length, 1)
  t.ok(looks >= 10)
  t.notOk(left.beat(), 'a run that only stood still finds out')
  left.release()
  t.ok(taken[0]!.isOurs(), 'and takes nothing back')
  taken[0]!.release()
})

t.test('a lock of another container that beats is not taken, whatever its time says', async (t) => {
  const dir = join(t.testdir(), 'payments')
  const folder = `${dir}-locks/a`
  mkdirSync(folder, { recursive: true })
  takeHome(folder)
  const file = moveElsewhere(folder)
  for (const mtime of [0, Date.now() / 1_000 + 9_999]) {
    let beats = 0
    const beating = async () => {
      if (++beats === 3) utimesSync(file, mtime, mtime)
    }
    t.equal(await lockCommand(dir, 'a', beating), undefined)
    t.equal(beats, 3)
  }
})
