import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { takeHome } from './homeLock.ts'

const program = `
import { takeHome } from ${JSON.stringify(import.meta.resolve('./homeLock.ts'))}
process.stdin.once('data', () => {
  try { takeHome(process.argv[1]); console.log('taken') } catch (error) { console.log(error.code) }
})
process.stdin.once('end', () => process.exit())
console.log('ready')
`

/** A process that takes the folder when told and keeps it until killed. */
async function contender(home: string): Promise<{ child: ChildProcess; next: () => Promise<string> }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, home], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  const next = async () => {
    while (lines.length === 0)
      lines.push(
        ...String((await once(child.stdout!, 'data'))[0])
          .trim()
          .split('\n'),
      )
    return lines.shift()!
  }
  t.equal(await next(), 'ready')
  return { child, next }
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

t.test('one process has the folder; a released or abandoned one can be taken', async (t) => {
  const home = t.testdir()
  const lock = takeHome(home)
  t.throws(() => takeHome(home), { code: 'VAULT_IN_USE' })
  lock.release()
  takeHome(home).release()
  t.equal(readdirSync(home).length, 1, 'old locks do not pile up')
})

t.test('of many that find a killed process’s lock at once, one gets it', async (t) => {
  const home = t.testdir()
  for (let round = 0; round < 3; round++) {
    const contenders = await Promise.all(Array.from({ length: 5 }, () => contender(home)))
    for (const { child } of contenders) child.stdin!.write('go')
    const results = await Promise.all(contenders.map(({ next }) => next()))
    t.strictSame(results.toSorted(), [...Array(4).fill('VAULT_IN_USE'), 'taken'], `round ${round}`)
    await Promise.all(contenders.map(({ child }) => kill(child)))
  }
})

t.test('a lock that was changed anywhere, or that nobody can read, is not taken', async (t) => {
  const home = t.testdir()
  takeHome(home)
  const file = join(home, 'lock.1')
  const whole = readFileSync(file)
  for (let at = 0; at < whole.length; at++) {
    const changed = Buffer.from(whole)
    changed[at]! ^= 0x01
    writeFileSync(file, changed)
    t.throws(() => takeHome(home), { code: 'VAULT_IN_USE' }, `byte ${at}`)
  }
  for (const text of ['', 'x', 'release', '{"pid":1} 0', 'null', 'null 0']) {
    writeFileSync(file, text)
    t.throws(() => takeHome(home), { code: 'VAULT_IN_USE' }, JSON.stringify(text))
  }
})

t.test('a process id that was given again to another process is no owner', async (t) => {
  const home = t.testdir()
  takeHome(home)
  const file = join(home, 'lock.1')
  const owner = JSON.parse(readFileSync(file, 'utf8').split(' ')[0]!)
  if (owner.startedAt === '')
    return t.pass('not tried', { skip: 'this system does not say when a process began' })
  for (const other of [{ startedAt: '1' }, { bootId: 'before' }, { pid: 2 ** 22 + 1 }]) {
    const body = JSON.stringify({ ...owner, ...other })
    writeFileSync(file, `${body} ${createHash('sha256').update(body).digest('hex')}`)
    t.doesNotThrow(() => takeHome(home).release(), JSON.stringify(other))
    takeHome(home)
    for (const name of readdirSync(home)) rmSync(join(home, name))
  }
})
