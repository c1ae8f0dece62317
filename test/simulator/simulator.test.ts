import t from 'tap'
import { openSimulation } from './openSimulation.ts'
import { simulate } from './simulate.ts'

const seeds = 200
/** Runs one seed again: SIMULATE_SEED=123 node test/simulator/simulator.test.ts */
const only = process.env['SIMULATE_SEED']

t.test(`after whatever trouble, the books agree with the chain (${only ?? `${seeds} seeds`})`, async (t) => {
  const simulation = await openSimulation()
  const list = only === undefined ? Array.from({ length: seeds }, (_, i) => i + 1) : [Number(only)]
  for (const seed of list) await simulate(seed, simulation)
  t.pass(`${list.length} seeds`)
})
