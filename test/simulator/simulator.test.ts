import t from 'tap'
import { SeedThreads } from './seedThreads.ts'
import { simulate } from './simulate.ts'
import { openSeedStores } from './store.ts'

const count = 200
const threads = new SeedThreads(1)
t.teardown(() => threads.close())
/** Runs one seed again and tells what happened: SIMULATE_SEED=123 node test/simulator/simulator.test.ts */
const only = process.env['SIMULATE_SEED']

t.test(`after whatever trouble, the books agree with the chain (${only ?? `${count} seeds`})`, async (t) => {
  const asked = only === undefined ? { count } : { from: Number(only), count: 1, isTraced: true }
  const { seeds, situations, failed } = await threads.run(asked)
  if (failed !== undefined) process.stderr.write(`${failed.trace.join('\n')}\n`)
  t.equal(failed?.message, undefined)
  t.equal(seeds, asked.count)
  if (only === undefined)
    t.ok(situations['several payments in one transaction'], 'gateways that share a key are among them')
})

t.test('who stood still while it took a key hears what it is handed afterwards', async (t) => {
  for (const from of [30_156, 41_001])
    t.equal((await threads.run({ from, count: 1 })).failed?.message, undefined)
})

t.test('a seed replays exactly', async (t) => {
  const stores = await openSeedStores()
  for (const seed of [1, 2, 3, 4, 8, 21, 106, 126, 563, 23676]) {
    const first = await simulate(seed, { stores, isTraced: true })
    t.ok(first.length > 50)
    t.same(await simulate(seed, { stores, isTraced: true }), first, `seed ${seed}`)
  }
})

// Those that show themselves soon; test/slow/simulator.test.ts has them all.
for (const plant of [
  'a claim is not unique',
  'a purchase is unique by its transaction only',
  'what lands for a session is booked and confirms nothing',
  'a process writes about nothing for ever',
  'the most is charged instead of the use',
  'more is claimed than was charged',
] as const) {
  t.test(`a planted mistake is found: ${plant}`, async (t) => {
    const { failed } = await threads.run({ count: 100, plant })
    t.ok(failed)
  })
}
