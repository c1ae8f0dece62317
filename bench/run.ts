// `npm run bench`: measures everything that README.md in this folder names. --json, --quick, --only key,key;
// with --scale what a gateway of much data does, on a store that is filled first, or was: --filled FOLDER; in a SQLite file, or with
// --store postgres there; with --grow what grows with what there is, on both, as a table of Markdown
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Bench, runBench } from './bench.ts'
import { channels } from './channels.ts'
import { claims } from './claims.ts'
import { free } from './free.ts'
import { discovery, type Grown, measureGrowth } from './growth.ts'
import { checkSurroundings } from './harness/machine.ts'
import { paid, settled, together } from './paid.ts'
import { type StoreName, storeNames } from './scale/target.ts'
import { scale } from './scale.ts'
import { start, workers } from './start.ts'
import {
  growthKeys,
  type Measured,
  type Stat,
  type StatKey,
  scaleKeys,
  scaleStats,
  statKeys,
  stats,
} from './stats.ts'
import { challenge, counters, plugins, wrap } from './steps.ts'
import { vault } from './vault.ts'

const all: Readonly<Record<StatKey, Stat>> = { ...stats, ...scaleStats }

/** The figures for people: what was measured, what it must and should be, and whether it is. */
function toTable(measured: Measured): string {
  const rows = Object.entries(measured).map(([key, value]) => {
    const stat: Stat = all[key as StatKey]
    return [stat.what, key, show(value, stat), bound(stat.must, stat), bound(stat.aim, stat)].concat(
      verdict(value, stat),
    )
  })
  const head = ['what', 'key', 'measured', 'must', 'aim', '']
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (i === 2 || i === 3 || i === 4 ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd()
  return [line(head), ...rows.map(line)].join('\n')
}

const names = { sqlite: 'SQLite', postgres: 'PostgreSQL' } as const

/** What grows, as a table of Markdown: a column for each store and size. */
function toMarkdown(grown: readonly Grown[]): string {
  const count = (n: number) => n.toLocaleString('en-US')
  const heads = grown.map(
    ({ store, links, sales }) => `${names[store]}, ${count(links)} links, ${count(sales)} sales`,
  )
  const rows = growthKeys.map((key) => {
    const { what, unit } = all[key]
    const shown = grown.map(({ measured }) => (measured[key] == null ? '–' : count(measured[key])))
    return [`${what}, ${unit}`, ...shown]
  })
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(['what', ...heads]), line(['---', ...heads.map(() => '---:')]), ...rows.map(line)].join('\n')
}

function show(value: number | null, { unit }: Stat): string {
  if (value === null) return '-'
  return unit === '×' ? `${value.toFixed(2)} ×` : `${value} ${unit}`
}

const bound = (value: number, { unit, better }: Stat) => `${better === 'more' ? '≥' : '≤'} ${value} ${unit}`

function verdict(value: number | null, { better, must, aim }: Stat): string {
  if (value === null) return 'not measured'
  const reaches = (limit: number) => (better === 'more' ? value >= limit : value <= limit)
  if (reaches(aim)) return '✓ aim'
  return reaches(must) ? '✓ must' : '✗ short'
}

/** Installs what bench/package.json names, once: the peers are not part of the product. */
function installPeers(progress: (line: string) => void): void {
  const folder = new URL('./', import.meta.url).pathname
  if (existsSync(`${folder}node_modules/@x402/express/package.json`)) return
  progress('installing the peers of bench/package.json …')
  const npm = spawnSync(
    'npm',
    ['--prefix', folder, 'install', '--omit=optional', '--no-audit', '--no-fund'],
    {
      stdio: ['ignore', 2, 2],
    },
  )
  if (npm.status !== 0) throw new Error('The peers could not be installed; npm says why above.')
}

const usual: readonly Bench[] = [
  free,
  challenge,
  counters,
  paid,
  settled,
  channels,
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
const [benches, keys] = values.scale ? [[scale], scaleKeys] : [usual, statKeys]
const only = keysOf(values.only)
const progress = (line: string) => console.error(line)

if (!values.scale && !values.grow) installPeers(progress)
const machine = checkSurroundings()
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
const wants = (key: StatKey) => only.includes(key)
const measured: Measured = {}
for (const bench of benches) {
  if (!bench.keys.some(wants)) continue
  const context = {
    machine,
    ...size,
    isQuick: values.quick,
    wants,
    progress,
    filledFolder: values.filled,
    storeName: stores?.[0],
  }
  Object.assign(measured, await runBench(bench, context))
}

const inOrder = Object.fromEntries(only.map((key) => [key, rounded(measured[key] ?? null)])) as Measured
console.log(values.json ? JSON.stringify(inOrder) : toTable(inOrder))

function keysOf(list: string | undefined): readonly StatKey[] {
  if (list === undefined) return keys
  const asked = list.split(',').map((key) => key.trim())
  const unknown = asked.filter((key) => !keys.includes(key as StatKey))
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
