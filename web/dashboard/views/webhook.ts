import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Badge, Empty, Notice } from '../../components/card.ts'
import { Dialog, showToast } from '../../components/dialog.ts'
import { Table } from '../../components/table.ts'
import { Code } from '../../components/tabs.ts'
import { exactTime, Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { Fault, Load, useAction, useLoad } from '../../shell/load.ts'
import { deliveryWords, msOf } from '../../shell/words.ts'
import { useSeller } from '../seller.ts'
import {
  type DeliveryPage,
  type DeliveryResponse,
  kindWords,
  type WebhookResponse,
  type WholeDelivery,
} from '../types.ts'
import { WebhookState } from './webhooks.ts'

interface Whole {
  readonly webhook: WebhookResponse
  readonly page: DeliveryPage
}

const PER_PAGE = 50

/** One webhook with its deliveries. Each shows its request and response, and can be replayed. */
export function Webhook({ id }: { readonly id: string }) {
  const { api } = useSeller()
  const [shown, setShown] = useState<string>()
  const whole = useLoad<Whole>(async () => {
    const [webhook, page] = await Promise.all([
      api<WebhookResponse>('GET', `/api/v1/webhooks/${id}`),
      api<DeliveryPage>('GET', `/api/v1/webhooks/${id}/deliveries?limit=${PER_PAGE}`),
    ])
    return { webhook, page }
  }, [id])
  const draw = ({ webhook, page }: Whole) => html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/webhooks', title: 'Webhooks' }} actions=${html`<${WebhookState} webhook=${webhook} />`}>
      <span class="mono shell-url">${webhook.url}</span>
    <//>
    <${Actions} webhook=${webhook} onChanged=${whole.reload} />
    <p class="soft">Events: ${webhook.events.map(kindWords).join(' · ')}</p>
    <${Rate} deliveries=${page.deliveries} />
    <${Deliveries} deliveries=${page.deliveries} onShow=${setShown} />
    <${Dialog} id="delivery" title="Delivery" isWide=${true} isOpen=${shown !== undefined} onClose=${() => setShown(undefined)}>
      <${Delivery} path=${`/api/v1/webhooks/${id}/deliveries/${shown}`} onReplayed=${whole.reload} onClose=${() => setShown(undefined)} />
    <//>
  </div>`
  return html`<${Load} of=${whole}>${draw}<//>`
}

function Actions({
  webhook,
  onChanged,
}: {
  readonly webhook: WebhookResponse
  readonly onChanged: () => void
}) {
  const { api, go } = useSeller()
  const [asked, setAsked] = useState<'rotate' | 'delete'>()
  const [secret, setSecret] = useState<string>()
  const action = useAction()
  const path = `/api/v1/webhooks/${webhook.id}`
  const test = () =>
    action.run(async () => {
      await api('POST', `${path}/test`)
      showToast({ text: 'A test was queued' })
      setTimeout(onChanged, 1_500)
    })
  const toggle = () =>
    action.run(async () => {
      await api('PATCH', path, { isEnabled: !webhook.isEnabled })
      onChanged()
    })
  const rotate = () =>
    action.run(async () => setSecret((await api<{ secret: string }>('POST', `${path}/rotate-secret`)).secret))
  const remove = () =>
    action.run(async () => {
      await api('DELETE', path)
      showToast({ text: 'The webhook was deleted' })
      go('/dashboard/webhooks')
    })
  const close = () => {
    if (action.isBusy) return
    setAsked(undefined)
    setSecret(undefined)
  }
  return html`<div class="stack">
    <div class="row">
      ${webhook.isEnabled && html`<${Button} isBusy=${action.isBusy} onClick=${test}>Send a test<//>`}
      <${Button} onClick=${toggle}>${webhook.isEnabled ? 'Switch off' : 'Switch on'}<//>
      <${Button} onClick=${() => setAsked('rotate')}>New secret<//>
      <${Button} kind="danger" onClick=${() => setAsked('delete')}>Delete<//>
    </div>
    ${asked === undefined && html`<${Fault} of=${action} />`}
    <${Dialog} id="rotate" title="New secret" isOpen=${asked === 'rotate'} isBusy=${action.isBusy} onClose=${close}>
      ${
        secret === undefined
          ? html`<p>The gateway signs messages with the new secret, and for 24 hours also with the old secret. Change the secret on your side within this time.</p>
            <${Fault} of=${action} />
            <div class="actions"><${Button} onClick=${close}>Cancel<//><${Button} kind="primary" isBusy=${action.isBusy} onClick=${rotate}>Create secret<//></div>`
          : html`<p>Store the secret now, because it is shown only once.</p><${Code} title="secret" code=${secret} />
            <div class="actions"><${Button} kind="primary" onClick=${close}>I have stored it<//></div>`
      }
    <//>
    <${Dialog} id="remove" title="Delete this webhook?" isOpen=${asked === 'delete'} isBusy=${action.isBusy} onClose=${close}>
      <p>The gateway sends no more messages to this webhook and drops waiting messages.</p>
      <${Fault} of=${action} />
      <div class="actions"><${Button} onClick=${close}>Keep it<//><${Button} kind="danger" isBusy=${action.isBusy} onClick=${remove}>Delete<//></div>
    <//>
  </div>`
}

/** Share of finished deliveries that succeeded. */
function Rate({ deliveries }: { readonly deliveries: readonly DeliveryResponse[] }) {
  const over = deliveries.filter(({ status }) => status === 'delivered' || status === 'failed')
  if (over.length === 0) return null
  const good = over.filter(({ status }) => status === 'delivered').length
  const percent = Math.floor((good / over.length) * 100)
  return html`<p><strong>${percent} %</strong> of the last ${over.length} deliveries succeeded.</p>`
}

interface DeliveriesProps {
  readonly deliveries: readonly DeliveryResponse[]
  readonly onShow: (id: string) => void
}

function Deliveries({ deliveries, onShow }: DeliveriesProps) {
  const nowMs = Date.now()
  const columns = [
    {
      key: 'when',
      title: 'When',
      cell: ({ id, createdAt }: DeliveryResponse) =>
        html`<button type="button" class="shell-link" onClick=${() => onShow(id)}><${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} /></button>`,
    },
    { key: 'event', title: 'Event', cell: ({ event }: DeliveryResponse) => kindWords(event) },
    {
      key: 'status',
      title: 'State',
      cell: ({ status, nextTryAt }: DeliveryResponse) => {
        const { words, tone } = deliveryWords(status)
        return html`<span><${Badge} tone=${tone}>${words}<//>${nextTryAt && html` <span class="soft small">next <${Time} atMs=${msOf(nextTryAt)} nowMs=${nowMs} /></span>`}</span>`
      },
    },
    { key: 'tries', title: 'Attempts', align: 'end', cell: ({ tries }: DeliveryResponse) => tries },
  ]
  const empty = html`<${Empty} title="Nothing sent yet"><p>Send a test message to see whether it arrives.</p><//>`
  return html`<${Table} caption="Deliveries" columns=${columns} rows=${deliveries} keyOf=${({ id }: DeliveryResponse) => id} empty=${empty} />`
}

interface DeliveryProps {
  readonly path: string
  readonly onReplayed: () => void
  readonly onClose: () => void
}

function Delivery({ path, onReplayed, onClose }: DeliveryProps) {
  const { api } = useSeller()
  const loaded = useLoad(() => api<WholeDelivery>('GET', path), [path])
  const action = useAction()
  const replay = () =>
    action.run(async () => {
      await api('POST', `${path}/replay`)
      showToast({ text: 'Queued to be sent again' })
      onReplayed()
      onClose()
    })
  const draw = ({ body, event, webhookId, attempts }: WholeDelivery) => html`<div class="stack">
    <p>${kindWords(event)} · <span class="mono">${webhookId}</span></p>
    <h3>Attempts</h3>
    ${attempts.length === 0 && html`<p class="soft">No attempt has finished yet.</p>`}
    ${attempts.map(
      ({
        at,
        status,
        latencyMs,
        error,
        response,
      }) => html`<${Notice} tone=${error === null ? 'good' : 'bad'} title=${error ?? 'Delivered'}>
        <p class="small">${exactTime(msOf(at))} · ${status === null ? 'no response' : `HTTP ${status}`} · ${latencyMs} ms</p>
        ${response !== '' && html`<pre class="shell-response">${response}</pre>`}
      <//>`,
    )}
    <h3>Message</h3>
    <${Code} title="body" code=${pretty(body)} />
    <${Fault} of=${action} />
  </div>`
  return html`<div class="stack"><${Load} of=${loaded}>${draw}<//>
    <div class="actions"><${Button} onClick=${onClose}>Close<//><${Button} kind="primary" isBusy=${action.isBusy} onClick=${replay}>Send again<//></div>
  </div>`
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
