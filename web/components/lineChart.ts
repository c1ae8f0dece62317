import { html } from '../html.ts'

export interface LineChartProps {
  /** What it shows, in words. */
  readonly label: string
  readonly values: readonly number[]
  /** The period before, as a dashed line. */
  readonly before?: readonly number[]
  /** In units of a 600 wide drawing. Default: 160. */
  readonly height?: number
  /** Words below its first and its last value. */
  readonly ends?: readonly [first: string, last: string]
}

const WIDTH = 600

/** The course of something over time, from zero up. */
export function LineChart({ label, values, before = [], height = 160, ends }: LineChartProps) {
  const most = Math.max(...values, ...before, 1e-9)
  const pointsOf = (line: readonly number[]) =>
    line
      .map((value, i) => {
        const x = (i / Math.max(1, line.length - 1)) * WIDTH
        return `${x.toFixed(1)},${(height - 2 - (value / most) * (height - 6)).toFixed(1)}`
      })
      .join(' ')
  const line = pointsOf(values)
  return html`<figure class="chart">
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${label}>
      <line class="rule" x1="0" x2=${WIDTH} y1=${height} y2=${height} />
      ${values.length > 1 && html`<polygon class="area" points=${`0,${height} ${line} ${WIDTH},${height}`} />`}
      ${before.length > 1 && html`<polyline class="line before" points=${pointsOf(before)} />`}
      <polyline class="line" points=${line} />
    </svg>
    ${ends && html`<figcaption class="ends"><span>${ends[0]}</span><span>${ends[1]}</span></figcaption>`}
  </figure>`
}
