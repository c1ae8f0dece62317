import { type Figure, type FigureKey, figures, growthKeys, type Measured, scaleFigures } from '../figures.ts'
import type { Grown } from '../growth.ts'

const all: Readonly<Record<FigureKey, Figure>> = { ...figures, ...scaleFigures }

/** The figures for people: what was measured, what it must and should be, and whether it is. */
export function toTable(measured: Measured): string {
  const rows = Object.entries(measured).map(([key, value]) => {
    const figure: Figure = all[key as FigureKey]
    return [
      figure.what,
      key,
      show(value, figure),
      bound(figure.must, figure),
      bound(figure.aim, figure),
    ].concat(verdict(value, figure))
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
export function toMarkdown(grown: readonly Grown[]): string {
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

function show(value: number | null, { unit }: Figure): string {
  if (value === null) return '-'
  return unit === '×' ? `${value.toFixed(2)} ×` : `${value} ${unit}`
}

const bound = (value: number, { unit, better }: Figure) => `${better === 'more' ? '≥' : '≤'} ${value} ${unit}`

function verdict(value: number | null, { better, must, aim }: Figure): string {
  if (value === null) return 'not measured'
  const reaches = (limit: number) => (better === 'more' ? value >= limit : value <= limit)
  if (reaches(aim)) return '✓ aim'
  return reaches(must) ? '✓ must' : '✗ short'
}
