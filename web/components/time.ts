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

/** `1 Jun 2026, 14:05 UTC`: the same for whoever reads it, wherever it was written. */
export const exactTime = (atMs: number): string =>
  `${new Date(atMs).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })} UTC`

/** `1 Jun`, in UTC as all of the service's days. */
export const dayOf = (atMs: number): string =>
  new Date(atMs).toLocaleString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })

/** `14:05`, in UTC. */
export const hourOf = (atMs: number): string =>
  new Date(atMs).toLocaleString('en-GB', { timeStyle: 'short', timeZone: 'UTC' })

export interface TimeProps {
  readonly atMs: number
  /** When it was written; the browser goes on from there by its own clock. */
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

/** A moment: how long ago in words, exactly on hover. */
export const Time = island('time', TimeView)
