import { useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Badge, Card, Notice, Skeleton } from '../components/card.ts'
import { LineChart } from '../components/charts.ts'
import { type Children, html } from '../html.ts'

/** Counts between two events of `GET /api/operator/live`. */
interface LiveResponse {
  readonly spanMs: number
  readonly asked: number
  readonly paid: number
  readonly answered: number
  readonly repeated: number
  readonly pending: number
  readonly refused: number
  readonly failed: number
  readonly free: number
  readonly left: number
  readonly underWay: number
  readonly processes: number
  readonly silent: number
}

interface LiveConnection {
  /** The counts of about the last minute, oldest first. */
  readonly seconds: readonly LiveResponse[]
  readonly state: 'connecting' | 'live' | 'lost'
  /** Restarts the stream. */
  readonly again: () => void
}

const SECONDS = 60

/**
 * Follows the calls while the page is visible. If the stream breaks, the browser reconnects by itself. If the gateway refuses
 * it, the browser stops.
 */
function useLive(onSignedOut: () => void): LiveConnection {
  const [seconds, setSeconds] = useState<readonly LiveResponse[]>([])
  const [state, setState] = useState<LiveConnection['state']>('connecting')
  const [round, setRound] = useState(0)
  useEffect(() => {
    let source: EventSource | undefined
    const close = () => {
      source?.close()
      source = undefined
    }
    const open = () => {
      close()
      // A hidden page needs no stream.
      if (document.hidden) return
      setState('connecting')
      setSeconds([])
      source = new EventSource('/api/operator/live')
      source.addEventListener('calls', ({ data }) => {
        setState('live')
        setSeconds((before) => [...before, JSON.parse(data) as LiveResponse].slice(-SECONDS))
      })
      source.addEventListener('ended', () => {
        close()
        onSignedOut()
      })
      source.addEventListener('error', () => setState(source?.readyState === 2 ? 'lost' : 'connecting'))
    }
    open()
    document.addEventListener('visibilitychange', open)
    return () => {
      document.removeEventListener('visibilitychange', open)
      close()
    }
  }, [round])
  return { seconds, state, again: () => setRound((before) => before + 1) }
}

type Kind = Exclude<keyof LiveResponse, 'spanMs' | 'underWay' | 'processes' | 'silent'>

/** Calls that cost nothing, by outcome. */
const others: readonly (readonly [kind: Kind, words: string])[] = [
  ['free', 'Free'],
  ['repeated', 'Repeated, already paid'],
  ['pending', 'Payment pending'],
  ['refused', 'Refused'],
  ['failed', 'Failed'],
  ['left', 'Caller disconnected'],
]

/** The calls of links as they arrive: payment required, paid, responded. */
export function Live({ onSignedOut }: { readonly onSignedOut: () => void }) {
  const { seconds, state, again } = useLive(onSignedOut)
  const last = seconds.at(-1)
  if (state === 'lost')
    return html`<${Card} title="Live calls"><${Notice} tone="bad" title="Live calls are unavailable" isAlert=${true}>
      <p>The service refused the stream, or eight pages are already open. The rest of this page still updates.</p>
      <p><${Button} size="small" onClick=${again}>Try again<//></p>
    <//><//>`
  if (last === undefined)
    return html`<${Card} title="Live calls"><div class="live-wait"><${Skeleton} count=${4} /></div><//>`
  const sumOf = (kind: Kind) => seconds.reduce((sum, second) => sum + second[kind], 0)
  const [asked, paid, answered] = [sumOf('asked'), sumOf('paid'), sumOf('answered')]
  const isQuiet = asked + paid === 0 && others.every(([kind]) => sumOf(kind) === 0)
  return html`<${Card} title="Live calls" actions=${html`<${Fleet} last=${last} isLive=${state === 'live'} />`}>
    <div class="stack"><ol class="live-steps" aria-label="In the last minute">
      <${Step} title="Must pay" hint="402" count=${asked} />
      <${Step} title="Paid" count=${paid} />
      <${Step} title="Responded" count=${answered}>${paid > answered && html`<span class="soft">${paid - answered} still running</span>`}<//>
    </ol>
    <${LineChart}
      label=${`Calls per second in the last minute: ${Math.round(rateOf(last))} now. The dashed line shows paid calls.`}
      values=${lineOf(seconds, rateOf)}
      before=${lineOf(seconds, (one) => (one.paid * 1_000) / one.spanMs)}
      height=${90}
      valueText=${(rate: number) => `${rate}/s`}
      ends=${['a minute ago', `now: ${formatRate(rateOf(last))} per second`]}
    />
    ${
      isQuiet
        ? html`<p class="soft">No calls yet. The chart starts with the first call.</p>`
        : html`<dl class="live-others">${others.map(([kind, words]) => html`<div data-some=${sumOf(kind) > 0}><dt>${words}</dt><dd class="number">${shown(sumOf(kind))}</dd></div>`)}
            <div data-some=${last.underWay > 0}><dt>Running now</dt><dd class="number">${shown(last.underWay)}</dd></div></dl>`
    }
  </div><//>`
}

const Fleet = ({ last, isLive }: { readonly last: LiveResponse; readonly isLive: boolean }) => {
  const { processes, silent } = last
  if (!isLive) return html`<${Badge}>Reconnecting<//>`
  if (silent > 0) return html`<${Badge} tone="warn">${silent} of ${processes} processes not reporting<//>`
  return html`<${Badge} tone="good">Live${processes > 1 ? ` from ${processes} processes` : ''}<//>`
}

interface StepProps {
  readonly title: string
  readonly hint?: string
  readonly count: number
  readonly children?: Children
}

const Step = ({ title, hint, count, children }: StepProps) =>
  html`<li><span class="live-title">${title}${hint && html` <span class="soft">${hint}</span>`}</span>
    <span class="shell-figure number">${shown(count)}</span>${children}</li>`

const shown = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, '\u202f')

/** Finished calls per second. */
const rateOf = (one: LiveResponse): number =>
  ((one.asked + one.paid + others.reduce((sum, [kind]) => sum + one[kind], 0)) * 1_000) / one.spanMs

const formatRate = (rate: number): string =>
  rate < 10 ? rate.toFixed(rate === 0 ? 0 : 1) : shown(Math.round(rate))

/** One minute of values. Zeros fill the left side, so that the line enters from the right. */
const lineOf = (seconds: readonly LiveResponse[], value: (one: LiveResponse) => number): number[] => [
  ...new Array<number>(SECONDS - seconds.length).fill(0),
  ...seconds.map(value),
]
