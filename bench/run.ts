// `npm run bench`: measures everything that README.md in this folder names. --json, --quick, --only key,key;
// with --scale what a gateway of much data does, on a store that is filled first, or was: --filled FOLDER; in a SQLite file, or with
// --store postgres there; with --grow what grows with what there is, on both, as a table of Markdown
import { parseArgs } from 'node:util'
import { type Bench, runBench } from './bench.ts'
import { challenge } from './challenge.ts'
import { claims } from './claims.ts'
import { counters } from './counters.ts'
import { discovery } from './discovery.ts'
import { type FigureKey, figureKeys, type Measured, scaleKeys } from './figures.ts'
import { free } from './free.ts'
import { type Grown, measureGrowth } from './growth.ts'
import { installPeers } from './harness/installPeers.ts'
import { lookAround } from './harness/machine.ts'
import { toMarkdown, toTable } from './harness/table.ts'
import { paid } from './paid.ts'
import { plugins } from './plugins.ts'
import { type StoreName, storeNames } from './scale/place.ts'
import { scale } from './scale.ts'
import { settled } from './settled.ts'
import { start } from './start.ts'
import { together } from './together.ts'
import { vault } from './vault.ts'
import { workers } from './workers.ts'
import { wrap } from './wrap.ts'

const usual: readonly Bench[] = [
  free,
  challenge,
  counters,
  paid,
  settled,
  together,
  wrap,
  plugins,
  claims,
  discovery,
  vault,
  workers,
  start,
]

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    scale: { type: 'boolean', default: false },
    filled: { type: 'string' },
    store: { type: 'string' },
    grow: { type: 'boolean', default: false },
  },
})
const stores = storesOf(values.store)
const [benches, keys] = values.scale ? [[scale], scaleKeys] : [usual, figureKeys]
const only = keysOf(values.only)
const progress = (line: string) => console.error(line)

if (!values.scale && !values.grow) installPeers(progress)
const machine = lookAround()
const size = values.quick ? { rounds: 3, seconds: 1, warmUps: 1 } : { rounds: 5, seconds: 3, warmUps: 5 }
progress(
  `${machine.hasWrk ? 'wrk' : 'wrk is not installed: load/generate.ts'} makes the load; ` +
    `${machine.nginx ? 'nginx is measured too' : 'nginx is not installed: its figures are null'}; ` +
    `${machine.canPin ? 'server and load each have a CPU' : 'nothing is pinned to a CPU: expect noise'}; ` +
    `medians of ${size.rounds} rounds of ${size.seconds} s`,
)
if (values.grow) {
  const context = { machine, ...size, isQuick: values.quick, progress }
  const grown = await measureGrowth(stores ?? storeNames, context)
  console.log(values.json ? JSON.stringify(grown.map(inThreeDigits)) : toMarkdown(grown.map(inThreeDigits)))
  process.exit()
}
const wants = (key: FigureKey) => only.includes(key)
const measured: Measured = {}
for (const bench of benches) {
  if (!bench.keys.some(wants)) continue
  const context = {
    ...{ machine, ...size, isQuick: values.quick, wants, progress },
    ...{ filledFolder: values.filled, storeName: stores?.[0] },
  }
  Object.assign(measured, await runBench(bench, context))
}

const inOrder = Object.fromEntries(only.map((key) => [key, rounded(measured[key] ?? null)])) as Measured
console.log(values.json ? JSON.stringify(inOrder) : toTable(inOrder))

function keysOf(list: string | undefined): readonly FigureKey[] {
  if (list === undefined) return keys
  const asked = list.split(',').map((key) => key.trim())
  const unknown = asked.filter((key) => !keys.includes(key as FigureKey))
  if (unknown.length === 0) return keys.filter((key) => asked.includes(key))
  console.error(`Expected --only with keys of ${keys.join(', ')}; got ${unknown.join(', ')}.`)
  process.exit(2)
}

function storesOf(given: string | undefined): readonly StoreName[] | undefined {
  if (given === undefined) return undefined
  const found = storeNames.filter((name) => name === given)
  if (found.length > 0) return found
  console.error(`Expected --store with ${storeNames.join(' or ')}, got ${given}.`)
  process.exit(2)
}

function inThreeDigits(one: Grown): Grown {
  const all = Object.entries(one.measured).map(([key, value]) => [key, rounded(value)])
  return { ...one, measured: Object.fromEntries(all) as Measured }
}

/** Three significant digits: more would be noise. */
function rounded(value: number | null): number | null {
  return value === null ? null : Number(value.toPrecision(3))
}
