import { type Children, html } from '../html.ts'

/** Labels of a time axis that fit a phone. */
const MAX_TICKS = 4

export interface AxesProps {
  /** The value at the top, from zero up; with `valueText` it stands beside the chart. */
  readonly top: number
  /** How a value is written on its axis. None: no value axis. */
  readonly valueText?: ((value: number) => string) | undefined
  /** Labels of the time axis, the first to the last, evenly. */
  readonly ends?: readonly string[] | undefined
  readonly children?: Children
}

/** The frame of a chart: values at its side, days or hours below it. */
export const Axes = ({ top, valueText, ends, children }: AxesProps) => html`<figure class="chart">
  <div class="plot">
    ${valueText && html`<div class="values" aria-hidden="true">${[top, top / 2, 0].map((value) => html`<span>${valueText(value)}</span>`)}</div>`}
    ${children}
  </div>
  ${ends && html`<figcaption class="ends">${ends.map((text) => html`<span>${text}</span>`)}</figcaption>`}
</figure>`

/** The next round value above: 1, 2 or 5 of its decimal place, so that its half is short as well. */
export function roundUp(value: number): number {
  if (value <= 0) return 1
  const place = 10 ** Math.floor(Math.log10(value))
  const digit = [1, 2, 5, 10].find((one) => one * place >= value * (1 - 1e-9)) ?? 10
  return Number((digit * place).toPrecision(1))
}

/** At most four of the labels, evenly spread, the first and the last among them. */
export function ticksOf(labels: readonly string[]): readonly string[] {
  if (labels.length <= MAX_TICKS) return labels
  const step = (labels.length - 1) / (MAX_TICKS - 1)
  return Array.from({ length: MAX_TICKS }, (_, i) => labels[Math.round(i * step)]!)
}
