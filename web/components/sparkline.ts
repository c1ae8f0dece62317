import { html } from '../html.ts'

export interface SparklineProps {
  readonly values: readonly number[]
  /** What it shows, in words. */
  readonly label: string
}

/** The course of something, as small as a word. */
export function Sparkline({ values, label }: SparklineProps) {
  const most = Math.max(...values, 1)
  const step = 96 / Math.max(1, values.length - 1)
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${(27 - (value / most) * 26).toFixed(1)}`)
  return html`<svg class="sparkline" viewBox="0 0 96 28" role="img" aria-label=${label}>
    <polyline points=${points.join(' ')} />
  </svg>`
}
