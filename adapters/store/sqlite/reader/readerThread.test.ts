import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { connectWriter } from '../connect.ts'
import { createReaderThread } from './readerThread.ts'

const one = { sql: 'SELECT ? AS n', parameters: [1] }

function start(t: Test) {
  const path = join(t.testdir(), 'read.db')
  connectWriter(path, false).close()
  const thread = createReaderThread(path)
  t.teardown(() => thread.close())
  return thread
}

t.test('whoever asks for ten at once waits himself, and each gets his own in order', async (t) => {
  const thread = start(t)
  const order: string[] = []
  const ask = (requester: string, what: string) =>
    thread
      .of(requester)
      .read(one)
      .then(() => order.push(`${requester}${what}`))
  const asked = Array.from({ length: 10 }, (_, i) => ask('a', `${i}`))
  await Promise.all([...asked, ask('b', '0'), ask('c', '0'), ask('b', '1')])
  t.strictSame(order.slice(0, 6), ['a0', 'a1', 'b0', 'c0', 'a2', 'b1'])
  t.strictSame(
    order.slice(6),
    [3, 4, 5, 6, 7, 8, 9].map((i) => `a${i}`),
  )
})

t.test('one that fails holds up nobody, and closing leaves nobody waiting', async (t) => {
  const thread = start(t)
  const wrong = thread.read({ sql: 'SELECT nothing', parameters: [] })
  const right = thread.of('b').read(one)
  await t.rejects(wrong, /refused a statement/)
  t.strictSame(await right, [[{ n: 1 }]])
  const left = [1, 2, 3].map(() => thread.of('a').read(one))
  const ends = Promise.allSettled(left)
  await thread.close()
  t.equal((await ends).length, 3)
  await t.rejects(thread.read(one), { code: 'store_unavailable' })
})

t.test(
  'a thread that reads gives way to those that answer calls',
  {
    skip: process.platform === 'linux' ? false : 'only Linux gives each thread a priority of its own',
  },
  async (t) => {
    const started = getPriority(process.pid)
    await start(t).read(one)
    const readers = readdirSync('/proc/self/task').filter((id) =>
      readFileSync(`/proc/self/task/${id}/comm`, 'utf8').startsWith('tollgate-reader'),
    )
    t.ok(readers.length > 0)
    for (const id of readers) t.equal(getPriority(Number(id)), Math.min(19, started + 10))
    t.equal(getPriority(process.pid), started, 'the main thread is as it was')
  },
)
