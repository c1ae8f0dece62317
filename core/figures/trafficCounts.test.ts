import t from 'tap'
import { HOUR_MS, type Traffic } from '../ports/figures.ts'
import { silentLog } from '../ports/log.ts'
import { TrafficCounts } from './trafficCounts.ts'

const none = { views: 0, challenges: 0, calls: 0, failedCalls: 0 }

/** A store that takes rows, unless it is down. */
function kept() {
  const store = { isDown: false, rows: [] as Traffic[] }
  const addTraffic = async (rows: readonly Traffic[]) => {
    if (store.isDown) throw new Error('down')
    store.rows.push(...rows)
  }
  return { store, counts: new TrafficCounts({ addTraffic }, silentLog) }
}

t.test('calls are written once, by link and hour, however late they end', async (t) => {
  const { store, counts } = kept()
  const [a, b] = [counts.ofLink('a'), counts.ofLink('b')]
  a.add('views', 2 * HOUR_MS)
  a.add('challenges', 2 * HOUR_MS + 1)
  a.add('challenges', 3 * HOUR_MS - 1)
  a.add('views', 3 * HOUR_MS)
  a.add('views', 2 * HOUR_MS + 2)
  b.add('calls', 0, -1)
  await counts.flush()
  t.strictSame(store.rows, [
    { linkId: 'a', hour: 2, ...none, views: 2, challenges: 2 },
    { linkId: 'a', hour: 3, ...none, views: 1 },
    { linkId: 'b', hour: 0, ...none, calls: -1 },
  ])
  await counts.flush()
  t.equal(store.rows.length, 3, 'nothing new')
  a.add('views', 0)
  await counts.flush()
  t.strictSame(store.rows.at(-1), { linkId: 'a', hour: 0, ...none, views: 1 })
})

t.test('what could not be written is written later, as one row', async (t) => {
  const { store, counts } = kept()
  const link = counts.ofLink('a')
  store.isDown = true
  for (let i = 0; i < 3; i++) {
    link.add('views', 0)
    await counts.flush()
  }
  store.isDown = false
  link.add('challenges', 0)
  await counts.flush()
  await counts.flush()
  t.equal(
    store.rows.reduce((sum, { views }) => sum + views, 0),
    3,
  )
  t.equal(store.rows.length, 2)
})

t.test(
  'many links are written some at a time, and only what could not be written is tried again',
  async (t) => {
    const pieces: number[] = []
    const rows: Traffic[] = []
    let isDown = true
    const addTraffic = async (some: readonly Traffic[]) => {
      if (isDown && pieces.length === 7) throw new Error('down')
      pieces.push(some.length)
      rows.push(...some)
    }
    const counts = new TrafficCounts({ addTraffic }, silentLog)
    for (let i = 0; i < 1_234; i++) counts.ofLink(`l${i}`).add('views', 0)
    await counts.flush()
    t.ok(rows.length < 1_234)
    isDown = false
    await counts.flush()
    t.equal(new Set(rows.map(({ linkId }) => linkId)).size, 1_234)
    t.equal(rows.length, 1_234, 'each once')
    t.ok(Math.max(...pieces) <= 25)
  },
)
