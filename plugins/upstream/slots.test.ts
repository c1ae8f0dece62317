import { array, assert, boolean, constantFrom, nat, oneof, property, record } from 'fast-check'
import t from 'tap'
import { PRESSED_MS, type Slot, Slots, StoreCalls } from './slots.ts'

/** Long enough for any call that holds a slot to give way. */
const later = () => performance.now() + 1_000_000

/** Some calls at one origin, and what ended. */
function origin(total: number) {
  const ended: string[] = []
  const slots = new Slots(({ storeId }) => void ended.push(storeId))
  slots.total = total
  const begin = (store: StoreCalls, isPaid = false) => slots.begin(store, isPaid, 60_000)
  return { slots, begin, ended }
}

/** Makes a call one that can be made to give way, and does so at once. */
function yielding(slot: Slot, isBehind = false): Slot {
  slot.holder = { isBehind: () => isBehind, preempt: () => slot.release() }
  return slot
}

const states = (slots: readonly Slot[]) => slots.map(({ state }) => state)

t.test('a store alone may hold every slot, and no more', async (t) => {
  const { slots, begin } = origin(3)
  const store = new StoreCalls('a')
  const calls = Array.from({ length: 5 }, () => begin(store))
  t.strictSame(states(calls), ['held', 'held', 'held', 'waiting', 'waiting'])
  calls[1]!.release()
  t.strictSame(states(calls), ['held', 'over', 'held', 'held', 'waiting'])
  t.equal(slots.held, 3)
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

t.test('a paid call of a store with few slots waits for nobody', async (t) => {
  const { slots, begin } = origin(32)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  for (let i = 0; i < 40; i++) begin(a, true)
  t.strictSame(states([begin(b, true), begin(b, true), begin(b, true)]), ['held', 'held', 'waiting'])
  t.equal(begin(b).state, 'waiting', 'a free one does')
  t.equal(slots.held, 34)
})

t.test('who is too slow gives way first, then whoever has held its slot for long enough', async (t) => {
  const { slots, begin } = origin(4)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  const held = [1, 2, 3, 4].map((n) => yielding(begin(a), n === 3))
  const waiting = [begin(b), begin(b), begin(b)]
  slots.makeRoom(performance.now())
  t.strictSame(states(held), ['held', 'held', 'over', 'held'], 'the slow one, at once')
  slots.makeRoom(performance.now() + PRESSED_MS - 1_000)
  t.equal(slots.held, 4)
  t.strictSame(states(waiting), ['held', 'waiting', 'waiting'])
  slots.makeRoom(later())
  t.strictSame(states(held), ['over', 'held', 'over', 'held'], 'the longest, until both have the same')
  t.strictSame(states(waiting), ['held', 'held', 'waiting'])
})

t.test('the longest gives way, whoever has left before', async (t) => {
  const { slots, begin } = origin(4)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  const held = [1, 2, 3, 4].map(() => {
    const begins = performance.now()
    while (performance.now() === begins);
    return yielding(begin(a))
  })
  held[0]!.release()
  t.equal(begin(b).state, 'held')
  begin(b)
  slots.makeRoom(later())
  t.strictSame(states(held), ['over', 'over', 'held', 'held'])
})

t.test('nobody gives way to a store that holds more, and nobody who was charged', async (t) => {
  const { slots, begin } = origin(4)
  const [a, b] = [new StoreCalls('a'), new StoreCalls('b')]
  const mine = yielding(begin(a), true)
  const charged = [1, 2, 3].map(() => yielding(begin(b, true)))
  for (const slot of charged) slot.isCharged = true
  const waiting = [begin(b, true), begin(a), begin(b)]
  slots.makeRoom(later())
  t.strictSame(
    states([mine, ...charged]),
    ['over', 'held', 'held', 'held'],
    'to a call of its own store only',
  )
  t.strictSame(states(waiting), ['waiting', 'held', 'waiting'])
})

t.test('in one store, free calls give way to paid ones soon and to each other late', async (t) => {
  const { slots, begin } = origin(2)
  const store = new StoreCalls('a')
  const held = [yielding(begin(store)), yielding(begin(store))]
  const free = begin(store)
  slots.makeRoom(performance.now() + 59_000)
  t.equal(free.state, 'waiting')
  const paid = begin(store, true)
  slots.makeRoom(performance.now() + PRESSED_MS)
  t.strictSame(states([...held, paid, free]), ['over', 'held', 'held', 'waiting'])
  slots.makeRoom(performance.now() + 61_000)
  t.strictSame(states([...held, paid, free]), ['over', 'over', 'held', 'held'])
})

t.test(
  'what was told to give way and takes its time is not told twice, and nobody else instead',
  async (t) => {
    const { slots, begin } = origin(2)
    const store = new StoreCalls('a')
    let notified = 0
    for (const slot of [begin(store), begin(store)])
      slot.holder = { isBehind: () => true, preempt: () => void notified++ }
    begin(store)
    // Whole, so that the differences are.
    const nowMs = Math.ceil(performance.now())
    slots.makeRoom(nowMs)
    slots.makeRoom(nowMs + 1_000)
    t.equal(notified, 1)
    slots.makeRoom(nowMs + 2_000)
    t.equal(notified, 2, 'until it has taken too long')
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

t.test('whatever happens, slots are neither lost nor made, and all come back', async (t) => {
  assert(
    property(nat(20), commands, (extra, all) => {
      const total = extra + 1
      const { slots, begin, ended } = origin(total)
      const stores = [0, 1, 2, 3].map((n) => new StoreCalls(String(n)))
      const calls: Slot[] = []
      let granted = 0
      let waited = 0
      const counts = () => {
        const held = calls.filter(({ state }) => state === 'held')
        const waiting = calls.filter(({ state }) => state === 'waiting')
        const open = calls.filter(({ state }) => state !== 'over')
        t.equal(slots.held, held.length)
        t.equal(slots.open, open.length)
        t.equal(ended.length, calls.length - open.length)
        const least = Math.max(1, total >> 4)
        if (held.length > total) t.ok(held.length <= total + stores.length * least, 'few beyond their number')
        if (waiting.length > 0) t.ok(held.length >= total, 'nobody waits for a free slot')
        for (const store of stores) {
          t.equal(store.held, held.filter((one) => one.store === store).length)
          t.equal(store.open, open.filter((one) => one.store === store).length)
          if (store.held < least) t.equal(store.waitingPaid.size, 0, 'a store may sell')
        }
      }
      for (const command of all) {
        if (command.do === 'begin') {
          const slot = begin(stores[command.store]!, command.isPaid)
          calls.push(slot)
          if (slot.state === 'waiting') {
            waited++
            slot.granted = () => void granted++
          }
          slot.holder = {
            isBehind: () => command.obeys,
            preempt: () => void (command.obeys && slot.release()),
          }
        } else if (command.do === 'look') slots.makeRoom(later())
        else {
          const slot = calls[command.call % Math.max(1, calls.length)]
          if (command.do === 'release') slot?.release()
          else if (command.do === 'tunnel') slot?.becomeTunnel()
          else if (slot !== undefined) slot.isCharged = true
        }
        counts()
      }
      for (const slot of calls) slot.release()
      for (const slot of calls) slot.release()
      counts()
      t.match({ held: slots.held, open: slots.open }, { held: 0, open: 0 })
      t.ok(granted <= waited)
    }),
    { numRuns: 300 },
  )
})
