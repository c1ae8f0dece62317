import { Badge } from '../components/badge.ts'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { LineChart } from '../components/lineChart.ts'
import { Notice } from '../components/notice.ts'
import { Skeleton } from '../components/skeleton.ts'
import { type Children, html } from '../html.ts'
import { type LiveAnswer, SECONDS, useLive } from './useLive.ts'

type Kind = Exclude<keyof LiveAnswer, 'spanMs' | 'underWay' | 'processes' | 'silent'>

/** What becomes of calls that are not paid for, in words. */
const others: readonly (readonly [kind: Kind, words: string])[] = [
  ['free', 'Free, answered'],
  ['repeated', 'Paid before, repeated'],
  ['pending', 'Payment on its way'],
  ['refused', 'Refused'],
  ['failed', 'Failed'],
  ['left', 'Caller left'],
]

/** The calls of links as they come: asked to pay, paid, answered. */
export function Live({ onSignedOut }: { readonly onSignedOut: () => void }) {
  const { seconds, state, again } = useLive(onSignedOut)
  const last = seconds.at(-1)
  if (state === 'lost')
    return html`<${Card} title="Calls now"><${Notice} tone="bad" title="The calls can’t be followed now" isAlert=${true}>
      <p>The service refused it, or eight pages follow them already. What else is shown here goes on.</p>
      <p><${Button} size="small" onClick=${again}>Try again<//></p>
    <//><//>`
  if (last === undefined)
    return html`<${Card} title="Calls now"><div class="live-wait"><${Skeleton} count=${4} /></div><//>`
  const sumOf = (kind: Kind) => seconds.reduce((sum, second) => sum + second[kind], 0)
  const [asked, paid, answered] = [sumOf('asked'), sumOf('paid'), sumOf('answered')]
  const isQuiet = asked + paid === 0 && others.every(([kind]) => sumOf(kind) === 0)
  return html`<${Card} title="Calls now" actions=${html`<${Fleet} last=${last} isLive=${state === 'live'} />`}>
    <div class="stack"><ol class="live-steps" aria-label="In the last minute">
      <${Step} title="Asked to pay" hint="402" count=${asked} />
      <${Step} title="Paid" count=${paid} />
      <${Step} title="Answered" count=${answered}>${paid > answered && html`<span class="soft">${paid - answered} not yet</span>`}<//>
    </ol>
    <${LineChart}
      label=${`Calls a second in the last minute: ${Math.round(rateOf(last))} now. The dashed line are those that paid.`}
      values=${lineOf(seconds, rateOf)}
      before=${lineOf(seconds, (one) => (one.paid * 1_000) / one.spanMs)}
      height=${90}
      valueText=${(rate: number) => `${rate}/s`}
      ends=${['a minute ago', `now: ${formatRate(rateOf(last))} a second`]}
    />
    ${
      isQuiet
        ? html`<p class="soft">No link was called since you look. The line moves with the first call.</p>`
        : html`<dl class="live-others">${others.map(([kind, words]) => html`<div data-some=${sumOf(kind) > 0}><dt>${words}</dt><dd class="number">${shown(sumOf(kind))}</dd></div>`)}
            <div data-some=${last.underWay > 0}><dt>Under way now</dt><dd class="number">${shown(last.underWay)}</dd></div></dl>`
    }
  </div><//>`
}

const Fleet = ({ last, isLive }: { readonly last: LiveAnswer; readonly isLive: boolean }) => {
  const { processes, silent } = last
  if (!isLive) return html`<${Badge}>Connecting again<//>`
  if (silent > 0) return html`<${Badge} tone="warn">${silent} of ${processes} processes silent<//>`
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
    <span class="desk-figure number">${shown(count)}</span>${children}</li>`

const shown = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, '\u202f')

/** Calls that ended, a second. */
const rateOf = (one: LiveAnswer): number =>
  ((one.asked + one.paid + others.reduce((sum, [kind]) => sum + one[kind], 0)) * 1_000) / one.spanMs

const formatRate = (rate: number): string =>
  rate < 10 ? rate.toFixed(rate === 0 ? 0 : 1) : shown(Math.round(rate))

/** A minute, with nothing where nobody has looked yet: the line comes in from the right. */
const lineOf = (seconds: readonly LiveAnswer[], value: (one: LiveAnswer) => number): number[] => [
  ...new Array<number>(SECONDS - seconds.length).fill(0),
  ...seconds.map(value),
]
