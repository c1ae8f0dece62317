import t from 'tap'
import { createMemory } from '../../../adapters/memory/store/memory.ts'
import { openMemory } from '../../../adapters/memory/store/openMemory.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import { systemClock as clock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { until } from '../../../test/helpers/rawHttp.ts'
import { createSettlerStarts } from './startSettlers.ts'

const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
const { books } = openMemory({ memory: createMemory(clock), clock })

/** A settler that can't read its book so many times. */
function settlerThatFails(times: number, more: Partial<Settler> = {}) {
  const tried = { times: 0 }
  const start = async () => {
    if (tried.times++ < times) throw new Error('the book can not be read')
  }
  return { tried, settler: { id: 'svm:a', network, start, ...more } as Settler }
}

t.test('a settler that any process may have is started once before it is offered', async (t) => {
  const starts = createSettlerStarts(books, silentLog, 5)
  t.teardown(() => starts.close())
  const { tried, settler } = settlerThatFails(0)
  await starts.begin(settler)
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(tried.times, 1)
  t.equal(starts.waiting.size, 0)
})

t.test('one whose keys only one process may have waits for them', async (t) => {
  const starts = createSettlerStarts(books, silentLog, 5)
  t.teardown(() => starts.close())
  const { tried, settler } = settlerThatFails(9, { isExclusive: true })
  await starts.begin(settler)
  t.equal(tried.times, 0)
  t.equal(starts.waiting.size, 0)
})

t.test('what can not be read at the start is read again until it can, and said meanwhile', async (t) => {
  const told: string[] = []
  const log = { ...silentLog, warn: (_facts: object, text: string) => void told.push(text) }
  const starts = createSettlerStarts(books, log, 5)
  t.teardown(() => starts.close())
  const { tried, settler } = settlerThatFails(3)
  await starts.begin(settler)
  t.strictSame([...starts.waiting], [network])
  await until(async () => starts.waiting.size === 0)
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(tried.times, 4, 'and no more than that')
  t.strictSame(told, Array(3).fill('can not settle here yet; trying again'))
})

t.test('nothing is tried any more once it is closed', async (t) => {
  const starts = createSettlerStarts(books, silentLog, 5)
  const { tried, settler } = settlerThatFails(1_000)
  await starts.begin(settler)
  await starts.close()
  const { times } = tried
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(tried.times, times)
})
