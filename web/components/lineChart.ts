import { html } from '../html.ts'
import { Axes, roundUp } from './axes.ts'

export interface LineChartProps {
  /** What it shows, in words. */
  readonly label: string
  readonly values: readonly number[]
  /** The period before, as a dashed line. */
  readonly before?: readonly number[]
  /** In px. Default: 160. */
  readonly height?: number
  /** How a value is written on its axis. None: no value axis. */
  readonly valueText?: (value: number) => string
  /** Labels below, the first to the last, evenly. */
  readonly ends?: readonly string[]
}

const WIDTH = 600

/** The course of something over time, from zero up. */
export function LineChart({ label, values, before = [], height = 160, valueText, ends }: LineChartProps) {
  const most = roundUp(Math.max(...values, ...before, 0))
  const pointsOf = (line: readonly number[]) =>
    line
      .map((value, i) => {
        const x = (i / Math.max(1, line.length - 1)) * WIDTH
        return `${x.toFixed(1)},${(height - (value / most) * height).toFixed(1)}`
      })
      .join(' ')
  const line = pointsOf(values)
  return html`<${Axes} top=${most} valueText=${valueText} ends=${ends}>
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} height=${height} preserveAspectRatio="none" role="img" aria-label=${label}>
      ${valueText && html`<line class="rule" x1="0" x2=${WIDTH} y1="0" y2="0" /><line class="rule" x1="0" x2=${WIDTH} y1=${height / 2} y2=${height / 2} />`}
      <line class="rule" x1="0" x2=${WIDTH} y1=${height} y2=${height} />
      ${values.length > 1 && html`<polygon class="area" points=${`0,${height} ${line} ${WIDTH},${height}`} />`}
      ${before.length > 1 && html`<polyline class="line before" points=${pointsOf(before)} />`}
      <polyline class="line" points=${line} />
    </svg>
  <//>`
}
