import { array, assert, boolean, constantFrom, nat, oneof, property, record } from 'fast-check'
import t from 'tap'
import { type Place, Places, PRESSED_MS, StoreCalls } from './places.ts'

/** Long enough for whoever holds a place to give way. */
const later = () => performance.now() + 1_000_000

/** Some calls at one origin, and what ended. */
function origin(total: number) {
  const ended: string[] = []
  const places = new Places(({ storeId }) => void ended.push(storeId))
  places.total = total
  const begin = (store: StoreCalls, isPaid = false) => places.begin(store, isPaid, 60_000)
  return { places, begin, ended }
}

/** Makes a call one that can be asked to give way, and does so at once. */
function yielding(place: Place, isBehind = false): Place {
  place.holder = { isBehind: () => isBehind, giveWay: () => place.release() }
  return place
}

const states = (places: readonly Place[]) => places.map(({ state }) => state)

t.test('a store alone may hold every place, and no more', async (t) => {
  const { places, begin } = origin(3)
  const store = new StoreCalls('a')
  const calls = Array.from({ length: 5 }, () => begin(store))
  t.strictSame(states(calls), ['held', 'held', 'held', 'waiting', 'waiting'])
  calls[1]!.release()
  t.strictSame(states(calls), ['held', 'over', 'held', 'held', 'waiting'])
  t.equal(places.held, 3)
  for (const call of calls) call.release()
})

t.test('the store that holds fewest is next, its paid calls before its free ones', async (t) => {
  const { begin } = origin(32)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  const held = Array.from({ length: 32 }, (_, i) => begin(i < 30 ? a : b))
  const granted: string[] = []
  for (const [name, store, isPaid] of [
    ['a free', a, false],
    ['a paid', a, true],
    ['b free', b, false],
    ['b paid', b, true],
  ] as const)
    begin(store, isPaid).granted = () => void granted.push(name)
  for (const call of held.slice(0, 4)) call.release()
  t.strictSame(granted, ['b paid', 'b free', 'a paid', 'a free'])
})

t.test('a paid call of a store with few places waits for nobody', async (t) => {
  const { places, begin } = origin(32)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  for (let i = 0; i < 40; i++) begin(a, true)
  t.strictSame(states([begin(b, true), begin(b, true), begin(b, true)]), ['held', 'held', 'waiting'])
  t.equal(begin(b).state, 'waiting', 'a free one does')
  t.equal(places.held, 34)
})

t.test('who is too slow gives way first, then whoever has held its place for long enough', async (t) => {
  const { places, begin } = origin(4)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  const held = [1, 2, 3, 4].map((n) => yielding(begin(a), n === 3))
  const waiting = [begin(b), begin(b), begin(b)]
  places.makeRoom(performance.now())
  t.strictSame(states(held), ['held', 'held', 'over', 'held'], 'the slow one, at once')
  places.makeRoom(performance.now() + PRESSED_MS - 1_000)
  t.equal(places.held, 4)
  t.strictSame(states(waiting), ['held', 'waiting', 'waiting'])
  places.makeRoom(later())
  t.strictSame(states(held), ['over', 'held', 'over', 'held'], 'the longest, until both have the same')
  t.strictSame(states(waiting), ['held', 'held', 'waiting'])
})

t.test('the longest gives way, whoever has left before', async (t) => {
  const { places, begin } = origin(4)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  const held = [1, 2, 3, 4].map(() => {
    const begins = performance.now()
    while (performance.now() === begins);
    return yielding(begin(a))
  })
  held[0]!.release()
  t.equal(begin(b).state, 'held')
  begin(b)
  places.makeRoom(later())
  t.strictSame(states(held), ['over', 'over', 'held', 'held'])
})

t.test('nobody gives way to a store that holds more, and nobody who was charged', async (t) => {
  const { places, begin } = origin(4)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  const mine = yielding(begin(a), true)
  const charged = [1, 2, 3].map(() => yielding(begin(b, true)))
  for (const place of charged) place.isCharged = true
  const waiting = [begin(b, true), begin(a), begin(b)]
  places.makeRoom(later())
  t.strictSame(
    states([mine, ...charged]),
    ['over', 'held', 'held', 'held'],
    'to a call of its own store only',
  )
  t.strictSame(states(waiting), ['waiting', 'held', 'waiting'])
})

t.test('in one store, free calls give way to paid ones soon and to each other late', async (t) => {
  const { places, begin } = origin(2)
  const store = new StoreCalls('a')
  const held = [yielding(begin(store)), yielding(begin(store))]
  const free = begin(store)
  places.makeRoom(performance.now() + 59_000)
  t.equal(free.state, 'waiting')
  const paid = begin(store, true)
  places.makeRoom(performance.now() + PRESSED_MS)
  t.strictSame(states([...held, paid, free]), ['over', 'held', 'held', 'waiting'])
  places.makeRoom(performance.now() + 61_000)
  t.strictSame(states([...held, paid, free]), ['over', 'over', 'held', 'held'])
})

t.test(
  'what was told to give way and takes its time is not told twice, and nobody else instead',
  async (t) => {
    const { places, begin } = origin(2)
    const store = new StoreCalls('a')
    let told = 0
    for (const place of [begin(store), begin(store)])
      place.holder = { isBehind: () => true, giveWay: () => void told++ }
    begin(store)
    // Whole, so that the differences are.
    const nowMs = Math.ceil(performance.now())
    places.makeRoom(nowMs)
    places.makeRoom(nowMs + 1_000)
    t.equal(told, 1)
    places.makeRoom(nowMs + 2_000)
    t.equal(told, 2, 'until it has taken too long')
  },
)

const commands = array(
  oneof(
    record({ do: constantFrom('begin' as const), store: nat(3), isPaid: boolean(), obeys: boolean() }),
    record({ do: constantFrom('release' as const, 'tunnel' as const, 'charge' as const), call: nat(200) }),
    record({ do: constantFrom('look' as const) }),
  ),
  { maxLength: 120 },
)

t.test('whatever happens, places are neither lost nor made, and all come back', async (t) => {
  assert(
    property(nat(20), commands, (extra, all) => {
      const total = extra + 1
      const { places, begin, ended } = origin(total)
      const stores = [0, 1, 2, 3].map((n) => new StoreCalls(String(n)))
      const calls: Place[] = []
      let granted = 0
      let waited = 0
      const counts = () => {
        const held = calls.filter(({ state }) => state === 'held')
        const waiting = calls.filter(({ state }) => state === 'waiting')
        const open = calls.filter(({ state }) => state !== 'over')
        t.equal(places.held, held.length)
        t.equal(places.open, open.length)
        t.equal(ended.length, calls.length - open.length)
        const least = Math.max(1, total >> 4)
        if (held.length > total) t.ok(held.length <= total + stores.length * least, 'few beyond their number')
        if (waiting.length > 0) t.ok(held.length >= total, 'nobody waits for a free place')
        for (const store of stores) {
          t.equal(store.held, held.filter((one) => one.store === store).length)
          t.equal(store.open, open.filter((one) => one.store === store).length)
          if (store.held < least) t.equal(store.waitingPaid.size, 0, 'a store may sell')
        }
      }
      for (const command of all) {
        if (command.do === 'begin') {
          const place = begin(stores[command.store]!, command.isPaid)
          calls.push(place)
          if (place.state === 'waiting') {
            waited++
            place.granted = () => void granted++
          }
          place.holder = {
            isBehind: () => command.obeys,
            giveWay: () => void (command.obeys && place.release()),
          }
        } else if (command.do === 'look') places.makeRoom(later())
        else {
          const place = calls[command.call % Math.max(1, calls.length)]
          if (command.do === 'release') place?.release()
          else if (command.do === 'tunnel') place?.becomeTunnel()
          else if (place !== undefined) place.isCharged = true
        }
        counts()
      }
      for (const place of calls) place.release()
      for (const place of calls) place.release()
      counts()
      t.match({ held: places.held, open: places.open }, { held: 0, open: 0 })
      t.ok(granted <= waited)
    }),
    { numRuns: 300 },
  )
})
