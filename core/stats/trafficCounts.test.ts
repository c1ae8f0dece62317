import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { silentLog } from '../ports/log.ts'
import { HOUR_MS, type Traffic } from '../ports/store/stats.ts'
import { TrafficCounts } from './trafficCounts.ts'

const none = { views: 0, challenges: 0, calls: 0, failedCalls: 0 }

/** A database that takes rows, unless it is down. */
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
  counts.add('a', 'views', 2 * HOUR_MS)
  counts.add('a', 'challenges', 2 * HOUR_MS + 1)
  counts.add('a', 'challenges', 3 * HOUR_MS - 1)
  counts.add('a', 'views', 3 * HOUR_MS)
  counts.add('a', 'views', 2 * HOUR_MS + 2)
  counts.add('b', 'calls', 0, -1)
  await counts.flush()
  t.strictSame(store.rows, [
    { linkId: 'a', hour: 2, ...none, views: 2, challenges: 2 },
    { linkId: 'a', hour: 3, ...none, views: 1 },
    { linkId: 'b', hour: 0, ...none, calls: -1 },
  ])
  await counts.flush()
  t.equal(store.rows.length, 3, 'nothing new')
  counts.add('a', 'views', 0)
  await counts.flush()
  t.strictSame(store.rows.at(-1), { linkId: 'a', hour: 0, ...none, views: 1 })
})

t.test('whoever keeps what is counted of a link adds to nothing that is written already', async (t) => {
  const { store, counts } = kept()
  const first = counts.of('a', 0)
  first.views++
  t.equal(counts.of('a', HOUR_MS - 1, first), first, 'while it counts')
  const next = counts.of('a', HOUR_MS, first)
  t.not(next, first, 'of another hour')
  next.views += 2
  t.equal(counts.of('a', 0, next), first, 'a call that took long')
  await counts.flush()
  counts.of('a', 0, first).views += 3
  counts.of('a', HOUR_MS, next).views += 4
  await counts.flush()
  t.strictSame(
    store.rows.map(({ hour, views }) => [hour, views]),
    [
      [0, 1],
      [1, 2],
      [0, 3],
      [1, 4],
    ],
  )
})

t.test('what could not be written is written later, as one row', async (t) => {
  const { store, counts } = kept()
  store.isDown = true
  for (let i = 0; i < 3; i++) {
    counts.add('a', 'views', 0)
    await counts.flush()
  }
  store.isDown = false
  counts.add('a', 'challenges', 0)
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
    for (let i = 0; i < 1_234; i++) counts.add(`l${i}`, 'views', 0)
    await counts.flush(2_000)
    t.ok(rows.length < 1_234)
    isDown = false
    await counts.flush(2_000)
    t.equal(new Set(rows.map(({ linkId }) => linkId)).size, 1_234)
    t.equal(rows.length, 1_234, 'each once')
    t.ok(Math.max(...pieces) <= 25)
  },
)

t.test(
  'of very many links some are written each time, those that waited longest first, and none is lost',
  async (t) => {
    const { store, counts } = kept()
    const seen = (turn: number) => {
      for (let i = 0; i < 10; i++) counts.add(`l${i}`, 'views', turn)
    }
    seen(0)
    await counts.flush(4)
    t.strictSame(
      store.rows.map(({ linkId }) => linkId),
      ['l0', 'l1', 'l2', 'l3'],
    )
    for (let turn = 1; turn < 5; turn++) seen(turn)
    await counts.flush(6)
    t.strictSame(
      store.rows.slice(4).map(({ linkId, views }) => [linkId, views]),
      ['l4', 'l5', 'l6', 'l7', 'l8', 'l9'].map((id) => [id, 5]),
      'what was counted meanwhile is in the same row',
    )
    await counts.flush()
    t.equal(
      store.rows.reduce((sum, { views }) => sum + views, 0),
      50,
    )
    t.equal(store.rows.length, 14)
  },
)

t.test(
  'a stop writes those of a whole market in few pieces, each of links that lie side by side',
  async (t) => {
    const pieces: (readonly Traffic[])[] = []
    const counts = new TrafficCounts({ addTraffic: async (rows) => void pieces.push(rows) }, silentLog)
    const links = 20_000
    // In no order, as calls arrive.
    for (let i = 0; i < links; i++) counts.add(`l${(i * 7_919) % links}`, 'views', HOUR_MS * (i % 3))
    counts.add('l7', 'calls', 9 * HOUR_MS)
    await counts.flush()
    const rows = pieces.flat()
    t.equal(rows.length, links + 1)
    t.equal(new Set(rows.map(({ linkId }) => linkId)).size, links, 'none is left out')
    t.ok(
      rows.every(({ linkId }, at) => at === 0 || rows[at - 1]!.linkId <= linkId),
      'in the order of the links',
    )
    t.ok(pieces.length <= 100, `${pieces.length} pieces`)
    t.ok(
      pieces.every((piece) => piece.length <= 250),
      'so that no payment waits long for the writer, where only a reload gave them up',
    )
  },
)

t.test('a store that is down loses nothing of links that wait for their turn', async (t) => {
  const { store, counts } = kept()
  for (let i = 0; i < 10; i++) counts.add(`l${i}`, 'calls', 0)
  store.isDown = true
  await counts.flush(3)
  await counts.flush(3)
  store.isDown = false
  await counts.flush(3)
  t.equal(store.rows.length, 9)
  await counts.flush()
  t.equal(new Set(store.rows.map(({ linkId }) => linkId)).size, 10)
  t.equal(store.rows.length, 10, 'each once')
})

t.test('counts of a whole market are taken and put in order in many turns of the event loop', async (t) => {
  const written: string[] = []
  const counts = new TrafficCounts(
    {
      async addTraffic(rows) {
        turnsBefore ??= turns
        written.push(...rows.map(({ linkId }) => linkId))
      },
    },
    silentLog,
  )
  const ids = Array.from({ length: 50_000 }, () => randomUUID())
  for (const id of ids) counts.add(id, 'views', 0)
  let turns = 0
  let turnsBefore: number | undefined
  let isOver = false
  const turn = () => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  const flushed = counts.flush()
  // A link that is called meanwhile is counted the next time.
  await nextTurn()
  counts.add('a later one', 'views', 0)
  await flushed
  isOver = true
  t.ok(turnsBefore! > 40, `${turnsBefore} turns before the first was written`)
  t.strictSame(written, ids.toSorted(), 'each once, in order')
  await counts.flush()
  t.equal(written.at(-1), 'a later one')
})

t.test('a stop waits for what is being written already', async (t) => {
  const mayWrite = Promise.withResolvers<void>()
  const rows: Traffic[] = []
  const addTraffic = async (some: readonly Traffic[]) => {
    await mayWrite.promise
    rows.push(...some)
  }
  const counts = new TrafficCounts({ addTraffic }, silentLog)
  counts.add('a', 'views', 0)
  const underWay = counts.flush(10)
  counts.add('b', 'views', 0)
  let isOver = false
  const stop = counts.flush().then(() => {
    isOver = true
  })
  await nextTurn()
  t.notOk(isOver)
  mayWrite.resolve()
  await stop
  t.strictSame(rows.map(({ linkId }) => linkId).sort(), ['a', 'b'])
  await underWay
})

t.test('a stop writes what could not be written a moment before', async (t) => {
  const rows: Traffic[] = []
  let first = true
  const addTraffic = async (some: readonly Traffic[]) => {
    const isFirst = first
    first = false
    await nextTurn()
    if (isFirst) throw new Error('down')
    rows.push(...some)
  }
  const counts = new TrafficCounts({ addTraffic }, silentLog)
  counts.add('a', 'views', 0)
  void counts.flush(10)
  counts.add('b', 'views', 0)
  await counts.flush()
  t.strictSame(rows.map(({ linkId }) => linkId).sort(), ['a', 'b'])
})
