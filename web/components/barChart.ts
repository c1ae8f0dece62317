import { html } from '../html.ts'
import { Axes, roundUp } from './axes.ts'

export interface Bar {
  /** Shown on hover, and read to those who don't see it. */
  readonly label: string
  readonly value: number
  /** `none`: nothing is known. */
  readonly tone?: 'good' | 'warn' | 'bad' | 'none'
}

export interface BarChartProps {
  /** What it shows, in words. */
  readonly label: string
  readonly bars: readonly Bar[]
  /** In px. Default: 120. */
  readonly height?: number
  /** The value of a full bar. Default: the largest. */
  readonly most?: number
  /** How a value is written on its axis. None: no value axis. */
  readonly valueText?: (value: number) => string
  /** Labels below its bars, the first to the last, evenly. */
  readonly ends?: readonly string[]
}

const WIDTH = 600

/** One bar a day, hour or thing. */
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
