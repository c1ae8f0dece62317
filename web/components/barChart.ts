import { html } from '../html.ts'

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
  /** In units of a 600 wide drawing. Default: 120. */
  readonly height?: number
  /** The value of a full bar. Default: the largest. */
  readonly most?: number
  /** Words below its first and its last bar. */
  readonly ends?: readonly [first: string, last: string]
}

const WIDTH = 600

/** One bar a day, hour or thing. */
export function BarChart({ label, bars, height = 120, most, ends }: BarChartProps) {
  const full = most ?? Math.max(...bars.map(({ value }) => value), 1)
  const step = WIDTH / Math.max(1, bars.length)
  const width = Math.max(1, step - Math.min(4, step / 4))
  return html`<figure class="chart">
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${label}>
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
          rx="2"
        ><title>${about}</title></rect>`
      })}
    </svg>
    ${ends && html`<figcaption class="ends"><span>${ends[0]}</span><span>${ends[1]}</span></figcaption>`}
  </figure>`
}
