import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { takeHome } from './homeLock.ts'

const program = `
import { takeHome } from ${JSON.stringify(import.meta.resolve('./homeLock.ts'))}
process.stdin.once('data', () => {
  takeHome(process.argv[1]).then(() => console.log('taken'), (error) => console.log(error.code))
})
process.stdin.once('end', () => process.exit())
console.log('ready')
`

/** A process that takes the folder on request and keeps it until it is killed. */
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
  const lock = await takeHome(home)
  await t.rejects(takeHome(home), { code: 'VAULT_IN_USE' })
  lock.release()
  ;(await takeHome(home)).release()
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
  await takeHome(home)
  const file = join(home, 'lock.1')
  const whole = readFileSync(file)
  for (let at = 0; at < whole.length; at++) {
    const changed = Buffer.from(whole)
    changed[at]! ^= 0x01
    writeFileSync(file, changed)
    await t.rejects(takeHome(home), { code: 'VAULT_IN_USE' }, `byte ${at}`)
  }
  for (const text of ['', 'x', 'release', '{"pid":1} 0', 'null', 'null 0']) {
    writeFileSync(file, text)
    await t.rejects(takeHome(home), { code: 'VAULT_IN_USE' }, JSON.stringify(text))
  }
})

t.test('a process id that was given again to another process is no owner', async (t) => {
  const home = t.testdir()
  await takeHome(home)
  const file = join(home, 'lock.1')
  const owner = JSON.parse(readFileSync(file, 'utf8').split(' ')[0]!)
  if (owner.startedAt === '')
    return t.pass('not tried', { skip: 'this system does not say when a process began' })
  for (const other of [{ startedAt: '1' }, { pid: 2 ** 22 + 1 }]) {
    const body = JSON.stringify({ ...owner, ...other })
    writeFileSync(file, `${body} ${createHash('sha256').update(body).digest('hex')}`)
    ;(await takeHome(home)).release()
    await takeHome(home)
    for (const name of readdirSync(home)) rmSync(join(home, name))
  }
})

/** Makes a lock look as if a process of another container had written it. */
function moveElsewhere(home: string, kernel: { bootId?: string; pidNamespace?: string }): string {
  const file = join(home, readdirSync(home).filter((name) => name.startsWith('lock.'))[0]!)
  const owner = JSON.parse(readFileSync(file, 'utf8').split(' ')[0]!)
  const body = JSON.stringify({ ...owner, ...kernel })
  writeFileSync(file, `${body} ${createHash('sha256').update(body).digest('hex')}`)
  return file
}

const elsewhere = [
  { pidNamespace: 'pid:[1]' },
  { bootId: 'another container' },
  { bootId: '' },
  { bootId: 'another host', pidNamespace: 'pid:[1]' },
]

// The heartbeat alone does not keep a process alive.
const alive = setInterval(() => {}, 1_000)
t.teardown(() => clearInterval(alive))

t.test(
  'a lock of another host or container is taken once its heartbeat has stopped, and not before',
  async (t) => {
    for (const kernel of elsewhere) {
      const home = t.testdir()
      const lock = await takeHome(home)
      const file = moveElsewhere(home, kernel)
      for (const beatAt of [0, Date.now() / 1_000 + 9_999]) {
        let reads = 0
        const betweenReads = async () => {
          if (++reads === 3) utimesSync(file, beatAt, beatAt)
        }
        await t.rejects(takeHome(home, { betweenReads }), { code: 'VAULT_IN_USE' }, 'whatever its time says')
        t.equal(reads, 3)
      }
      // Two start at once after the container was killed.
      const both = await Promise.allSettled(
        [1, 2].map(() => takeHome(home, { betweenReads: async () => {} })),
      )
      const taken = both.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
      t.equal(taken.length, 1)
      t.notOk(lock.isOurs(), 'a process that only stood still is told')
      await new Promise<void>((resolve) => lock.onLost(resolve))
      lock.release()
      t.ok(taken[0]!.isOurs(), 'and takes nothing back')
      taken[0]!.release()
    }
  },
)
