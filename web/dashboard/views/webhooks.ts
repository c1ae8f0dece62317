import { useState } from 'preact/hooks'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Code } from '../../components/codeBlock.ts'
import { Dialog } from '../../components/dialog.ts'
import { Empty } from '../../components/empty.ts'
import { Field } from '../../components/field.ts'
import { Table } from '../../components/table.ts'
import { type Action, Fault, Load, useAction, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { html } from '../../html.ts'
import { useSeller } from '../seller.ts'
import { kinds, type WebhookAnswer } from '../webhookTypes.ts'

/** Who hears of what happens in the store, and does it hear it? */
export function Webhooks() {
  const { ask } = useSeller()
  const loaded = useLoad(() => ask<{ webhooks: readonly WebhookAnswer[] }>('GET', '/api/v1/webhooks'), [])
  const [isOpen, setOpen] = useState(false)
  const adding = useAction()
  const close = () => {
    if (adding.isBusy) return
    adding.clear()
    setOpen(false)
    loaded.reload()
  }
  const add = html`<${Button} kind="primary" onClick=${() => setOpen(true)}>Add a webhook<//>`
  return html`<div class="stack">
    <${Title} actions=${add}>Webhooks<//>
    <${Load} of=${loaded}>${({ webhooks }: { webhooks: readonly WebhookAnswer[] }) => html`<${WebhookTable} webhooks=${webhooks} />`}<//>
    <${Dialog} id="add" title="Add a webhook" isOpen=${isOpen} isBusy=${adding.isBusy} onClose=${close}>
      <${NewWebhook} action=${adding} onClose=${close} />
    <//>
  </div>`
}

const empty = html`<${Empty} title="No webhooks yet">
  <p>A webhook is an address of yours that hears of sales, refunds and suspended links as they happen, signed by Standard Webhooks.</p>
<//>`

function WebhookTable({ webhooks }: { readonly webhooks: readonly WebhookAnswer[] }) {
  const columns = [
    {
      ...{ key: 'url', title: 'Address' },
      cell: ({ id, url, linkId, description }: WebhookAnswer) =>
        html`<a class="desk-main-cell mono" href=${`/dashboard/webhooks/${id}`}>${url}</a>
          <span class="soft small" dir="auto">${linkId === null ? description : 'Of one link'}</span>`,
    },
    { key: 'state', title: 'State', cell: (one: WebhookAnswer) => html`<${WebhookState} webhook=${one} />` },
    {
      key: 'events',
      title: 'Hears of',
      align: 'end',
      cell: ({ events }: WebhookAnswer) => `${events.length} ${events.length === 1 ? 'event' : 'events'}`,
    },
  ]
  return html`<${Table} caption="Webhooks" columns=${columns} rows=${webhooks} keyOf=${({ id }: WebhookAnswer) => id} empty=${empty} />`
}

/** Whether what is sent gets through. */
export function WebhookState({
  webhook: { isEnabled, disabledReason, failingSince },
}: {
  readonly webhook: WebhookAnswer
}) {
  if (!isEnabled)
    return html`<${Badge} tone=${disabledReason === 'seller' ? 'plain' : 'bad'}>${disabledReason === 'seller' ? 'Off' : 'Switched off'}<//>`
  return failingSince === null ? html`<${Badge} tone="good">On<//>` : html`<${Badge} tone="warn">Failing<//>`
}

function NewWebhook({ action, onClose }: { readonly action: Action; readonly onClose: () => void }) {
  const { ask } = useSeller()
  const [url, setUrl] = useState('')
  const [chosen, setChosen] = useState<readonly string[]>([
    'purchase.confirmed',
    'refund.due',
    'link.suspended',
  ])
  const [secret, setSecret] = useState<string>()
  const add = (event: Event) => {
    event.preventDefault()
    void action.run(async () => {
      const body = { url: url.trim(), events: chosen }
      setSecret((await ask<{ secret: string }>('POST', '/api/v1/webhooks', body)).secret)
    })
  }
  if (secret !== undefined) {
    return html`<div class="stack">
      <p>This is its secret. It is shown only now; what is sent is signed with it.</p>
      <${Code} title="secret" code=${secret} />
      <div class="actions"><${Button} kind="primary" onClick=${onClose}>I have kept it<//></div>
    </div>`
  }
  const toggle = (kind: string) =>
    setChosen((before) => (before.includes(kind) ? before.filter((one) => one !== kind) : [...before, kind]))
  return html`<form class="stack" onSubmit=${add} novalidate>
    <${Field} id="url" label="Address" type="url" value=${url} onInput=${setUrl} placeholder="https://shop.example.com/hooks" error=${action.fault?.details['url']} />
    <fieldset class="desk-checks"><legend>Events</legend>
      ${kinds.map(
        ({ kind, words }) => html`<label class="check" key=${kind}>
          <input type="checkbox" checked=${chosen.includes(kind)} onChange=${() => toggle(kind)} /> ${words}
        </label>`,
      )}
    </fieldset>
    ${action.fault?.details['url'] === undefined && html`<${Fault} of=${action} />`}
    <div class="actions"><${Button} onClick=${onClose} aria-disabled=${action.isBusy ? 'true' : undefined}>Cancel<//><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Add<//></div>
  </form>`
}
