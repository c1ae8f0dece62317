import { useState } from 'preact/hooks'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Code } from '../../components/codeBlock.ts'
import { Dialog } from '../../components/dialog.ts'
import { Empty } from '../../components/empty.ts'
import { Notice } from '../../components/notice.ts'
import { Table } from '../../components/table.ts'
import { exactTime, Time } from '../../components/time.ts'
import { showToast } from '../../components/toast.ts'
import { Fault, Load, useAction, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { deliveryWords, msOf } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { useSeller } from '../seller.ts'
import {
  type DeliveryAnswer,
  type DeliveryPage,
  kindWords,
  type WebhookAnswer,
  type WholeDelivery,
} from '../webhookTypes.ts'
import { WebhookState } from './webhooks.ts'

interface Whole {
  readonly webhook: WebhookAnswer
  readonly page: DeliveryPage
}

/** Deliveries of one page. */
const PER_PAGE = 50

/** One webhook: what was sent, how that went, and again. */
export function Webhook({ id }: { readonly id: string }) {
  const { ask } = useSeller()
  const [shown, setShown] = useState<string>()
  const whole = useLoad<Whole>(async () => {
    const [webhook, page] = await Promise.all([
      ask<WebhookAnswer>('GET', `/api/v1/webhooks/${id}`),
      ask<DeliveryPage>('GET', `/api/v1/webhooks/${id}/deliveries?limit=${PER_PAGE}`),
    ])
    return { webhook, page }
  }, [id])
  const draw = ({ webhook, page }: Whole) => html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/webhooks', title: 'Webhooks' }} actions=${html`<${WebhookState} webhook=${webhook} />`}>
      <span class="mono desk-url">${webhook.url}</span>
    <//>
    <${Actions} webhook=${webhook} onChanged=${whole.reload} />
    <p class="soft">Hears of: ${webhook.events.map(kindWords).join(' · ')}</p>
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
  readonly webhook: WebhookAnswer
  readonly onChanged: () => void
}) {
  const { ask, go } = useSeller()
  const [asked, setAsked] = useState<'rotate' | 'delete'>()
  const [secret, setSecret] = useState<string>()
  const action = useAction()
  const path = `/api/v1/webhooks/${webhook.id}`
  const test = () =>
    action.run(async () => {
      await ask('POST', `${path}/test`)
      showToast({ text: 'A test is on its way' })
      setTimeout(onChanged, 1_500)
    })
  const toggle = () =>
    action.run(async () => {
      await ask('PATCH', path, { isEnabled: !webhook.isEnabled })
      onChanged()
    })
  const rotate = () =>
    action.run(async () => setSecret((await ask<{ secret: string }>('POST', `${path}/rotate-secret`)).secret))
  const remove = () =>
    action.run(async () => {
      await ask('DELETE', path)
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
    <${Dialog} id="rotate" title="A new secret" isOpen=${asked === 'rotate'} isBusy=${action.isBusy} onClose=${close}>
      ${
        secret === undefined
          ? html`<p>What is sent is signed with the new secret, and for 24 hours with the old one too: time to change it at your end.</p>
            <${Fault} of=${action} />
            <div class="actions"><${Button} onClick=${close}>Cancel<//><${Button} kind="primary" isBusy=${action.isBusy} onClick=${rotate}>Make it<//></div>`
          : html`<p>It is shown only now.</p><${Code} title="secret" code=${secret} />
            <div class="actions"><${Button} kind="primary" onClick=${close}>I have kept it<//></div>`
      }
    <//>
    <${Dialog} id="remove" title="Delete this webhook?" isOpen=${asked === 'delete'} isBusy=${action.isBusy} onClose=${close}>
      <p>Nothing more is sent to it, and what waits for it is dropped.</p>
      <${Fault} of=${action} />
      <div class="actions"><${Button} onClick=${close}>Keep it<//><${Button} kind="danger" isBusy=${action.isBusy} onClick=${remove}>Delete<//></div>
    <//>
  </div>`
}

/** Of those that are over, how many got through. */
function Rate({ deliveries }: { readonly deliveries: readonly DeliveryAnswer[] }) {
  const over = deliveries.filter(({ status }) => status === 'delivered' || status === 'failed')
  if (over.length === 0) return null
  const good = over.filter(({ status }) => status === 'delivered').length
  const percent = Math.floor((good / over.length) * 100)
  return html`<p><strong>${percent} %</strong> of the last ${over.length} got through.</p>`
}

interface DeliveriesProps {
  readonly deliveries: readonly DeliveryAnswer[]
  readonly onShow: (id: string) => void
}

function Deliveries({ deliveries, onShow }: DeliveriesProps) {
  const nowMs = Date.now()
  const columns = [
    {
      ...{ key: 'when', title: 'When' },
      cell: ({ id, createdAt }: DeliveryAnswer) =>
        html`<button type="button" class="desk-link" onClick=${() => onShow(id)}><${Time} atMs=${msOf(createdAt)} nowMs=${nowMs} /></button>`,
    },
    { key: 'event', title: 'Event', cell: ({ event }: DeliveryAnswer) => kindWords(event) },
    {
      ...{ key: 'status', title: 'State' },
      cell: ({ status, nextTryAt }: DeliveryAnswer) => {
        const { words, tone } = deliveryWords(status)
        return html`<span><${Badge} tone=${tone}>${words}<//>${nextTryAt && html` <span class="soft small">next <${Time} atMs=${msOf(nextTryAt)} nowMs=${nowMs} /></span>`}</span>`
      },
    },
    { key: 'tries', title: 'Tries', align: 'end', cell: ({ tries }: DeliveryAnswer) => tries },
  ]
  const empty = html`<${Empty} title="Nothing was sent yet"><p>Send a test to see whether it gets through.</p><//>`
  return html`<${Table} caption="Deliveries" columns=${columns} rows=${deliveries} keyOf=${({ id }: DeliveryAnswer) => id} empty=${empty} />`
}

interface DeliveryProps {
  readonly path: string
  readonly onReplayed: () => void
  readonly onClose: () => void
}

function Delivery({ path, onReplayed, onClose }: DeliveryProps) {
  const { ask } = useSeller()
  const loaded = useLoad(() => ask<WholeDelivery>('GET', path), [path])
  const action = useAction()
  const replay = () =>
    action.run(async () => {
      await ask('POST', `${path}/replay`)
      showToast({ text: 'It is sent again' })
      onReplayed()
      onClose()
    })
  const draw = ({ body, event, webhookId, attempts }: WholeDelivery) => html`<div class="stack">
    <p>${kindWords(event)} · <span class="mono">${webhookId}</span></p>
    <h3>Tries</h3>
    ${attempts.length === 0 && html`<p class="soft">None is over yet.</p>`}
    ${attempts.map(
      ({
        at,
        status,
        latencyMs,
        error,
        answer,
      }) => html`<${Notice} tone=${error === null ? 'good' : 'bad'} title=${error ?? 'Delivered'}>
        <p class="small">${exactTime(msOf(at))} · ${status === null ? 'no answer' : `HTTP ${status}`} · ${latencyMs} ms</p>
        ${answer !== '' && html`<pre class="desk-answer">${answer}</pre>`}
      <//>`,
    )}
    <h3>What is sent</h3>
    <${Code} title="body" code=${pretty(body)} />
    <${Fault} of=${action} />
  </div>`
  return html`<div class="stack"><${Load} of=${loaded}>${draw}<//>
    <div class="actions"><${Button} onClick=${onClose}>Close<//><${Button} kind="primary" isBusy=${action.isBusy} onClick=${replay}>Send it again<//></div>
  </div>`
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
