import { useEffect, useState } from 'preact/hooks'
import { browser } from '../browser.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'

const steps: readonly (readonly [unit: Intl.RelativeTimeFormatUnit, ms: number])[] = [
  ['year', 31_536_000_000],
  ['month', 2_628_000_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
]
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })

/** `2 min ago`, `in 3 hr.`, `now`. */
export function timeAgo(atMs: number, nowMs: number): string {
  const distance = atMs - nowMs
  for (const [unit, ms] of steps) {
    if (Math.abs(distance) >= ms) return relative.format(Math.trunc(distance / ms), unit)
  }
  return 'now'
}

/** `1 Jun 2026, 14:05 UTC`, which is the same in every time zone. */
export const exactTime = (atMs: number): string =>
  `${new Date(atMs).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })} UTC`

/** `1 Jun`, in UTC, as all days of the gateway. */
export const dayOf = (atMs: number): string =>
  new Date(atMs).toLocaleString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })

/** `14:05`, in UTC. */
export const hourOf = (atMs: number): string =>
  new Date(atMs).toLocaleString('en-GB', { timeStyle: 'short', timeZone: 'UTC' })

export interface TimeProps {
  readonly atMs: number
  /** The time of rendering, in ms since 1970. The browser continues with its own clock. */
  readonly nowMs: number
}

function TimeView({ atMs, nowMs }: TimeProps) {
  const [now, setNow] = useState(nowMs)
  useEffect(() => {
    const startedAt = performance.now()
    const tick = () => setNow(nowMs + performance.now() - startedAt)
    const timer = browser.setInterval(tick, 30_000)
    return () => browser.clearInterval(timer)
  }, [nowMs])
  return html`<time datetime=${new Date(atMs).toISOString()} title=${exactTime(atMs)}>${timeAgo(atMs, now)}</time>`
}

/** A moment as relative time. Hover shows the exact time. */
export const Time = island('time', TimeView)

const RADIUS = 14
const ROUND = 2 * Math.PI * RADIUS
/** Below this much time left, in ms, the countdown turns red. */
const SHORT_MS = 120_000

export interface CountdownProps {
  readonly totalMs: number
  /**
   * Time left when the page was rendered, in ms. The countdown starts when the page loads, because the buyer's clock may be
   * wrong.
   */
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

/** Time left, as a ring and in numbers. */
export const Countdown = island('countdown', CountdownView)
