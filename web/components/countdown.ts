import { useEffect, useState } from 'preact/hooks'
import { browser } from '../browser.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'

const RADIUS = 14
const ROUND = 2 * Math.PI * RADIUS
/** From here on it is a warning. */
const SHORT_MS = 120_000

export interface CountdownProps {
  /** Of the whole time that there was. */
  readonly totalMs: number
  /** Left when it was written; counted by how long the page has been there, not by its clock. */
  readonly leftMs: number
}

function CountdownView({ totalMs, leftMs }: CountdownProps) {
  const [left, setLeft] = useState(leftMs)
  useEffect(() => {
    const startedAt = performance.now()
    const timer = browser.setInterval(
      () => setLeft(Math.max(0, leftMs - (performance.now() - startedAt))),
      1_000,
    )
    return () => browser.clearInterval(timer)
  }, [leftMs])
  const seconds = Math.ceil(left / 1_000)
  const words = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
  const part = Math.min(1, left / totalMs)
  return html`<span class="countdown" data-tone=${left < SHORT_MS ? 'bad' : 'plain'} role="timer">
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <circle cx="16" cy="16" r=${RADIUS} /><circle
        cx="16"
        cy="16"
        r=${RADIUS}
        stroke-dasharray=${`${(part * ROUND).toFixed(1)} ${ROUND.toFixed(1)}`}
      />
    </svg>
    <span>${words} left</span>
  </span>`
}

/** How much time is left, as a ring and in figures. */
export const Countdown = island('countdown', CountdownView)
