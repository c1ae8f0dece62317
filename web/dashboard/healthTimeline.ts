import { roundUp, ticksOf } from '../components/axes.ts'
import { Badge, type Tone } from '../components/badge.ts'
import { BarChart } from '../components/barChart.ts'
import { exactTime, hourOf, Time } from '../components/time.ts'
import { msOf } from '../desk/words.ts'
import { html } from '../html.ts'
import type { HealthAnswer, HealthEventAnswer, HealthHourAnswer } from './types.ts'

/** Latest events in words; the bars show more. */
const SHOWN_EVENTS = 8

const states: Readonly<Record<HealthAnswer['status'], { readonly words: string; readonly tone: Tone }>> = {
  healthy: { words: 'Healthy', tone: 'good' },
  unhealthy: { words: 'Failing', tone: 'warn' },
  suspended: { words: 'Suspended', tone: 'bad' },
  unknown: { words: 'Not checked yet', tone: 'plain' },
}

/** A link's checks of a day as bars, an hour each, as high as they took long, and the latest events in words. */
export function Timeline({ health: { status, hours, events } }: { readonly health: HealthAnswer }) {
  const most = roundUp(Math.max(...hours.map(({ latencyMs }) => latencyMs), 0))
  const { words, tone } = states[status]
  const bars = hours.map((one) => ({
    label: `${exactTime(msOf(one.hour))}: ${sumOf(one)}`,
    value: one.failedChecks === 0 ? Math.max(one.latencyMs, most / 10) : most,
    // An hour in which some passed was not lost.
    tone: toneOf(one),
  }))
  return html`<div class="stack">
    <p><${Badge} tone=${tone}>${words}<//></p>
    ${
      bars.length > 1 &&
      html`<${BarChart} label="The checks of the last day, by the hour" bars=${bars} most=${most} height=${72} valueText=${(ms: number) => `${ms} ms`} ends=${ticksOf(hours.map(({ hour }) => `${hourOf(msOf(hour))} UTC`))} />`
    }
    ${
      events.length === 0
        ? html`<p class="soft">The API is checked at regular times. What the checks find stands here.</p>`
        : html`<ol class="desk-events">${events.slice(0, SHOWN_EVENTS).map((event) => html`<${Line} event=${event} />`)}</ol>`
    }
  </div>`
}

const toneOf = ({ checks, failedChecks }: HealthHourAnswer): 'good' | 'warn' | 'bad' =>
  failedChecks === 0 ? 'good' : failedChecks < checks ? 'warn' : 'bad'

const Line = ({ event }: { readonly event: HealthEventAnswer }) =>
  html`<li data-tone=${event.ok ? 'good' : 'bad'}><span dir="auto">${wordsOf(event)}</span>
    <span class="soft small"><${Time} atMs=${msOf(event.at)} nowMs=${Date.now()} /></span></li>`

function sumOf({ checks, failedChecks, latencyMs, maxLatencyMs }: HealthHourAnswer): string {
  const failed = failedChecks === 0 ? '' : `, ${failedChecks} failed`
  return `${checks} ${checks === 1 ? 'check' : 'checks'}${failed}; ${latencyMs} ms, at most ${maxLatencyMs} ms`
}

function wordsOf({ kind, ok, status, latencyMs, detail }: HealthEventAnswer): string {
  if (kind === 'suspended') return `Suspended. ${detail}`
  if (kind === 're-enabled') return 'Re-enabled'
  const took = latencyMs === null ? '' : ` in ${latencyMs} ms`
  if (ok) return `Answered ${status ?? ''}${took}`
  return detail || `Failed with ${status ?? 'no answer'}${took}`
}
