import { type Children, html } from '../html.ts'

interface LineChartProps {
  /** What the chart shows, for screen readers. */
  readonly label: string
  readonly values: readonly number[]
  /** Values of the preceding period, as a dashed line. */
  readonly before?: readonly number[]
  /** Height in px. Default: 160. */
  readonly height?: number
  /** Formats a value for the value axis. Without it there is no value axis. */
  readonly valueText?: (value: number) => string
  /** Labels below the chart, first to last, evenly spaced. */
  readonly ends?: readonly string[]
}

/** Values over time. The scale starts at zero. */
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

/** Maximum labels on a time axis. More would not fit on a phone. */
const MAX_TICKS = 4

interface AxesProps {
  /** The value at the top of the scale, which starts at zero. With `valueText`, it is shown beside the chart. */
  readonly top: number
  /** Formats a value for the value axis. Without it there is no value axis. */
  readonly valueText?: ((value: number) => string) | undefined
  /** Labels of the time axis, first to last, evenly spaced. */
  readonly ends?: readonly string[] | undefined
  readonly children?: Children
}

/** The frame of a chart, with values beside it and days or hours below it. */
const Axes = ({ top, valueText, ends, children }: AxesProps) => html`<figure class="chart">
  <div class="plot">
    ${valueText && html`<div class="values" aria-hidden="true">${[top, top / 2, 0].map((value) => html`<span>${valueText(value)}</span>`)}</div>`}
    ${children}
  </div>
  ${ends && html`<figcaption class="ends">${ends.map((text) => html`<span>${text}</span>`)}</figcaption>`}
</figure>`

/** Rounds up to 1, 2 or 5 times a power of ten, so that half of the result is a short number too. */
export function roundUp(value: number): number {
  if (value <= 0) return 1
  const place = 10 ** Math.floor(Math.log10(value))
  const digit = [1, 2, 5, 10].find((one) => one * place >= value * (1 - 1e-9)) ?? 10
  return Number((digit * place).toPrecision(1))
}

/** At most four of the labels, evenly spaced, including the first and the last. */
export function ticksOf(labels: readonly string[]): readonly string[] {
  if (labels.length <= MAX_TICKS) return labels
  const step = (labels.length - 1) / (MAX_TICKS - 1)
  return Array.from({ length: MAX_TICKS }, (_, i) => labels[Math.round(i * step)]!)
}

export interface Bar {
  /** Shown on hover, and read by screen readers. */
  readonly label: string
  readonly value: number
  /** The color. `none` means no data. */
  readonly tone?: 'good' | 'warn' | 'bad' | 'none'
}

export interface BarChartProps {
  /** What the chart shows, for screen readers. */
  readonly label: string
  readonly bars: readonly Bar[]
  /** Height in px. Default: 120. */
  readonly height?: number
  /** Value of a full-height bar. Default: the largest value. */
  readonly most?: number
  /** Formats a value for the value axis. Without it there is no value axis. */
  readonly valueText?: (value: number) => string
  /** Labels below the bars, first to last, evenly spaced. */
  readonly ends?: readonly string[]
}

const WIDTH = 600

/** One bar per day, hour or item. */
export function BarChart({ label, bars, height = 120, most, valueText, ends }: BarChartProps) {
  const full = most ?? roundUp(Math.max(...bars.map(({ value }) => value), 0))
  const step = WIDTH / Math.max(1, bars.length)
  const width = Math.max(1, step - Math.min(4, step / 4))
  return html`<${Axes} top=${full} valueText=${valueText} ends=${ends}>
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} height=${height} preserveAspectRatio="none" role="img" aria-label=${label}>
      ${valueText && html`<line class="rule" x1="0" x2=${WIDTH} y1="0" y2="0" /><line class="rule" x1="0" x2=${WIDTH} y1=${height / 2} y2=${height / 2} />`}
      ${bars.map(({ label: about, value, tone = 'good' }, i) => {
        const tall = value <= 0 ? 2 : Math.max(2, (Math.min(value, full) / full) * height)
        const tint = value <= 0 && tone === 'good' ? 'none' : tone
        return html`<rect
          class="bar"
          data-tone=${tint}
          x=${(i * step).toFixed(1)}
          y=${(height - tall).toFixed(1)}
          width=${width.toFixed(1)}
          height=${tall.toFixed(1)}
        ><title>${about}</title></rect>`
      })}
    </svg>
  <//>`
}
