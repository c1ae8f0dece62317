import t from 'tap'
import { openSimulation } from '../simulator/openSimulation.ts'
import { simulate } from '../simulator/simulate.ts'

const seeds = Number(process.env['SIMULATE_SEEDS'] ?? 10_000)
const from = Number(process.env['SIMULATE_FROM'] ?? 1)

t.test(
  `after whatever trouble, the books agree with the chain (${seeds} seeds from ${from})`,
  { timeout: 0 },
  async (t) => {
    const simulation = await openSimulation()
    for (let seed = from; seed < from + seeds; seed++) await simulate(seed, simulation)
    t.pass(`${seeds} seeds`)
  },
)
