import t from 'tap'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import { systemClock as clock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { until } from '../../../test/helpers/rawHttp.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { createSettlerStarts } from './startSettlers.ts'

const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
const { ledger } = openTestStore({ clock, storeClock: clock })

/** A settler that fails to read its state this many times. */
function settlerThatFails(times: number, more: Partial<Settler> = {}) {
  const tried = { times: 0 }
  const start = async () => {
    if (tried.times++ < times) throw new Error('the book can not be read')
  }
  return { tried, settler: { id: 'svm:a', network, start, ...more } as Settler }
}

t.test('a settler that any process may have is started once before it is offered', async (t) => {
  const starts = createSettlerStarts(ledger, silentLog, 5)
  t.teardown(() => starts.close())
  const { tried, settler } = settlerThatFails(0)
  await starts.begin(settler)
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(tried.times, 1)
  t.equal(starts.waiting.size, 0)
})

t.test('one whose keys only one process may have waits for them', async (t) => {
  const starts = createSettlerStarts(ledger, silentLog, 5)
  t.teardown(() => starts.close())
  const { tried, settler } = settlerThatFails(9, { isExclusive: true })
  await starts.begin(settler)
  t.equal(tried.times, 0)
  t.equal(starts.waiting.size, 0)
})

t.test('what can not be read at the start is read again until it can, and said meanwhile', async (t) => {
  const notified: string[] = []
  const log = { ...silentLog, warn: (_facts: object, text: string) => void notified.push(text) }
  const starts = createSettlerStarts(ledger, log, 5)
  t.teardown(() => starts.close())
  const { tried, settler } = settlerThatFails(3)
  await starts.begin(settler)
  t.strictSame([...starts.waiting], [network])
  await until(async () => starts.waiting.size === 0)
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(tried.times, 4, 'and no more than that')
  t.strictSame(notified, Array(3).fill('this process cannot settle yet and tries again'))
})

t.test('nothing is tried any more once it is closed', async (t) => {
  const starts = createSettlerStarts(ledger, silentLog, 5)
  const { tried, settler } = settlerThatFails(1_000)
  await starts.begin(settler)
  await starts.close()
  const { times } = tried
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(tried.times, times)
})
