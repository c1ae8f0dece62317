import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Badge, Card, Notice, type Tone } from '../../components/card.ts'
import { BarChart, roundUp, ticksOf } from '../../components/charts.ts'
import { Dialog, showToast } from '../../components/dialog.ts'
import { Code } from '../../components/tabs.ts'
import { exactTime, hourOf, Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Fault, Load, useAction, useLoad } from '../../shell/load.ts'
import { msOf } from '../../shell/words.ts'
import { type LinkFields, LinkForm, linkBody } from '../linkForm.ts'
import { useSeller } from '../seller.ts'
import type {
  HealthEventResponse,
  HealthHourResponse,
  HealthResponse,
  LinkResponse,
  ProbeResponse,
} from '../types.ts'
import { LinkState } from './links.ts'
import { PriceSecret, WebhookSecret } from './newLink.ts'

/** Number of latest events that are shown in words. The bars show the others. */
const SHOWN_EVENTS = 8

const states: Readonly<Record<HealthResponse['status'], { readonly words: string; readonly tone: Tone }>> = {
  healthy: { words: 'Healthy', tone: 'good' },
  unhealthy: { words: 'Failing', tone: 'warn' },
  suspended: { words: 'Suspended', tone: 'bad' },
  unknown: { words: 'Not checked yet', tone: 'plain' },
}

/** A link's checks of the last day. There is a bar per hour with the latency as its height, and the latest events in words. */
function Timeline({ health: { status, hours, events } }: { readonly health: HealthResponse }) {
  const most = roundUp(Math.max(...hours.map(({ latencyMs }) => latencyMs), 0))
  const { words, tone } = states[status]
  const bars = hours.map((one) => ({
    label: `${exactTime(msOf(one.hour))}: ${sumOf(one)}`,
    value: one.failedChecks === 0 ? Math.max(one.latencyMs, most / 10) : most,
    // An hour in which some checks passed is a warning, not an outage.
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
        ? html`<p class="soft">The gateway checks the API regularly. Results appear here.</p>`
        : html`<ol class="shell-events">${events.slice(0, SHOWN_EVENTS).map((event) => html`<${Line} event=${event} />`)}</ol>`
    }
  </div>`
}

const toneOf = ({ checks, failedChecks }: HealthHourResponse): 'good' | 'warn' | 'bad' =>
  failedChecks === 0 ? 'good' : failedChecks < checks ? 'warn' : 'bad'

const Line = ({ event }: { readonly event: HealthEventResponse }) =>
  html`<li data-tone=${event.ok ? 'good' : 'bad'}><span dir="auto">${wordsOf(event)}</span>
    <span class="soft small"><${Time} atMs=${msOf(event.at)} nowMs=${Date.now()} /></span></li>`

function sumOf({ checks, failedChecks, latencyMs, maxLatencyMs }: HealthHourResponse): string {
  const failed = failedChecks === 0 ? '' : `, ${failedChecks} failed`
  return `${checks} ${checks === 1 ? 'check' : 'checks'}${failed}; ${latencyMs} ms on average, ${maxLatencyMs} ms at most`
}

function wordsOf({ kind, ok, status, latencyMs, detail }: HealthEventResponse): string {
  if (kind === 'suspended') return `Suspended. ${detail}`
  if (kind === 're-enabled') return 'Re-enabled'
  const took = latencyMs === null ? '' : ` in ${latencyMs} ms`
  if (ok) return `Responded ${status ?? ''}${took}`
  return detail || `Failed with ${status ?? 'no response'}${took}`
}

/** One link with its address, its health and its form. */
export function Link({ id }: { readonly id: string }) {
  const { api } = useSeller()
  const link = useLoad(() => api<LinkResponse>('GET', `/api/v1/links/${id}`), [id])
  return html`<${Load} of=${link}>${(data: LinkResponse) => html`<${LinkView} link=${data} onChanged=${link.set} onStale=${link.reload} />`}<//>`
}

interface LinkViewProps {
  readonly link: LinkResponse
  readonly onChanged: (link: LinkResponse) => void
  readonly onStale: () => void
}

function LinkView({ link, onChanged, onStale }: LinkViewProps) {
  const { api, publicUrl, store } = useSeller()
  const save = useAction()
  const [webhookSecret, setWebhookSecret] = useState<string>()
  const [priceSecret, setPriceSecret] = useState<string>()
  const update = async (fields: LinkFields) => {
    const body = linkBody(fields, link)
    if (Object.keys(body).length > 0) {
      const path = `/api/v1/links/${link.id}`
      const changed = await api<LinkResponse & { webhookSecret?: string; priceSecret?: string }>(
        'PATCH',
        path,
        body,
      )
      setWebhookSecret(changed.webhookSecret)
      setPriceSecret(changed.priceSecret)
      onChanged(changed)
    }
    showToast({ text: 'Saved' })
  }
  const address = `${publicUrl}/api/link/${store.username}/${link.privateSlug ?? link.slug}`
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/links', title: 'Links' }} actions=${html`<${LinkState} link=${link} />`}>${link.title}<//>
    ${link.suspension !== null && html`<${Suspended} link=${link} onStale=${onStale} />`}
    ${!link.isActive && html`<${Notice} title="This link was deleted"><p>The link’s data and purchases are kept.</p><//>`}
    ${webhookSecret && html`<${WebhookSecret} secret=${webhookSecret} />`}
    ${priceSecret && html`<${PriceSecret} secret=${priceSecret} />`}
    <div class="shell-two">
      <div class="stack">
        <${Card} title="Address"><div class="stack"><${Code} title="address" code=${address} />
          <p class="row">${!link.isStealth && html`<a href=${`/${store.username}/${link.slug}`}>View the page</a>`}
            <a href=${`/dashboard/purchases?linkId=${link.id}`}>View the purchases</a></p></div>
        <//>
        ${link.linkType === 'api' && html`<${Health} link=${link} />`}
      </div>
      ${
        link.isActive &&
        html`<${Card} title="Settings">
          <${LinkForm} link=${link} action=${save} submit="Save" onSubmit=${update}><${Delete} link=${link} /><//>
        <//>`
      }
    </div>
  </div>`
}

function Suspended({
  link: { id, suspension },
  onStale,
}: {
  readonly link: LinkResponse
  readonly onStale: () => void
}) {
  const { api } = useSeller()
  const action = useAction()
  const { reason, cooldownUntil, permanent } = suspension!
  const isCooling = msOf(cooldownUntil) > Date.now()
  const reEnable = () =>
    action.run(async () => {
      await api('POST', `/api/v1/links/${id}/re-enable`)
      showToast({ text: 'The link was re-enabled' })
      onStale()
    })
  return html`<${Notice} tone="bad" title="This link is suspended and can’t be bought">
    <p dir="auto">${reason}</p>
    ${permanent && html`<p>This link was suspended too often, so only the operator can re-enable it. Ask the operator.</p>`}
    ${!permanent && isCooling && html`<p>You can re-enable the link <${Time} atMs=${msOf(cooldownUntil)} nowMs=${Date.now()} />, after two successful checks.</p>`}
    ${!permanent && !isCooling && html`<p><${Button} isBusy=${action.isBusy} onClick=${reEnable}>Check the API and re-enable it<//></p>`}
    <${Fault} of=${action} />
  <//>`
}

function Health({ link }: { readonly link: LinkResponse }) {
  const { api } = useSeller()
  const health = useLoad(
    () => api<HealthResponse>('GET', `/api/v1/links/${link.id}/health?limit=60`),
    [link.id],
  )
  const [report, setReport] = useState<ProbeResponse>()
  const action = useAction()
  const test = () =>
    action.run(async () => {
      setReport(await api<ProbeResponse>('POST', `/api/v1/links/${link.id}/test`))
      health.reload()
    })
  const button =
    link.isActive && html`<${Button} size="small" isBusy=${action.isBusy} onClick=${test}>Test call<//>`
  return html`<${Card} title="Health" actions=${button}>
    <div class="stack">
      <div aria-live="polite">${report && html`<${Report} report=${report} />`}</div>
      <${Fault} of=${action} />
      <${Load} of=${health}>${(data: HealthResponse) => html`<${Timeline} health=${data} />`}<//>
    </div>
  <//>`
}

const Report = ({
  report: { ok, status, latencyMs, detail, checkedAt },
}: {
  readonly report: ProbeResponse
}) =>
  html`<${Notice} tone=${ok ? 'good' : 'bad'} title=${ok ? 'The API is working' : 'The API is not working'}>
    <p dir="auto">${detail}</p>
    <p class="small">${status === null ? 'No response' : html`HTTP <code>${status}</code>`} · ${latencyMs} ms · ${exactTime(msOf(checkedAt))}</p>
  <//>`

function Delete({ link }: { readonly link: LinkResponse }) {
  const { api, go } = useSeller()
  const [isOpen, setOpen] = useState(false)
  const action = useAction()
  const close = () => setOpen(false)
  const remove = () =>
    action.run(async () => {
      await api('DELETE', `/api/v1/links/${link.id}`)
      showToast({ text: 'The link was deleted' })
      go('/dashboard/links')
    })
  return html`<div class="row"><${Button} kind="danger" onClick=${() => setOpen(true)}>Delete<//>
    <${Dialog} id="delete" title="Delete this link?" isOpen=${isOpen} onClose=${close}>
      <p>Buyers can no longer call the link. Its purchases are kept. A deleted link can’t be restored.</p>
      <${Fault} of=${action} />
      <div class="actions"><${Button} onClick=${close}>Keep it<//>
        <${Button} kind="danger" isBusy=${action.isBusy} onClick=${remove}>Delete link<//></div>
    <//></div>`
}
