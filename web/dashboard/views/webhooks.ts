import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Badge, Empty } from '../../components/card.ts'
import { Dialog } from '../../components/dialog.ts'
import { Field } from '../../components/field.ts'
import { Table } from '../../components/table.ts'
import { Code } from '../../components/tabs.ts'
import { html } from '../../html.ts'
import { addressWords, type FormWords, useForm } from '../../shell/form.ts'
import { Title } from '../../shell/frame.ts'
import { type Action, Load, useAction, useLoad } from '../../shell/load.ts'
import { useSeller } from '../seller.ts'
import { kinds, type WebhookResponse } from '../types.ts'

/** The webhooks, with the events that each receives, and whether deliveries succeed. */
export function Webhooks() {
  const { api } = useSeller()
  const loaded = useLoad(() => api<{ webhooks: readonly WebhookResponse[] }>('GET', '/api/v1/webhooks'), [])
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
    <${Load} of=${loaded}>${({ webhooks }: { webhooks: readonly WebhookResponse[] }) => html`<${WebhookTable} webhooks=${webhooks} />`}<//>
    <${Dialog} id="add" title="Add a webhook" isOpen=${isOpen} isBusy=${adding.isBusy} onClose=${close}>
      <${NewWebhook} action=${adding} onClose=${close} />
    <//>
  </div>`
}

const empty = html`<${Empty} title="No webhooks yet">
  <p>The gateway reports sales, refunds and suspended links to your webhook when they happen. It signs the messages as in Standard Webhooks.</p>
<//>`

function WebhookTable({ webhooks }: { readonly webhooks: readonly WebhookResponse[] }) {
  const columns = [
    {
      key: 'url',
      title: 'Address',
      cell: ({ id, url, linkId, description }: WebhookResponse) =>
        html`<a class="shell-main-cell mono" href=${`/dashboard/webhooks/${id}`}>${url}</a>
          <span class="soft small" dir="auto">${linkId === null ? description : 'For one link'}</span>`,
    },
    {
      key: 'state',
      title: 'State',
      cell: (one: WebhookResponse) => html`<${WebhookState} webhook=${one} />`,
    },
    {
      key: 'events',
      title: 'Receives',
      align: 'end',
      cell: ({ events }: WebhookResponse) => `${events.length} ${events.length === 1 ? 'event' : 'events'}`,
    },
  ]
  return html`<${Table} caption="Webhooks" columns=${columns} rows=${webhooks} keyOf=${({ id }: WebhookResponse) => id} empty=${empty} />`
}

/** Whether deliveries succeed. */
export function WebhookState({
  webhook: { isEnabled, disabledReason, failingSince },
}: {
  readonly webhook: WebhookResponse
}) {
  if (!isEnabled)
    return html`<${Badge} tone=${disabledReason === 'seller' ? 'plain' : 'bad'}>${disabledReason === 'seller' ? 'Off' : 'Switched off'}<//>`
  return failingSince === null ? html`<${Badge} tone="good">On<//>` : html`<${Badge} tone="warn">Failing<//>`
}

const blank: { readonly url: string; readonly events: readonly string[] } = {
  url: '',
  events: ['purchase.confirmed', 'refund.due', 'link.suspended'],
}

const words: FormWords = {
  url: addressWords('Enter the address that receives events, such as https://shop.example.com/hooks.'),
  events: { expected: 'Choose at least one event.', minItems: 'Choose at least one event.' },
}

function NewWebhook({ action, onClose }: { readonly action: Action; readonly onClose: () => void }) {
  const { api } = useSeller()
  const [secret, setSecret] = useState<string>()
  const form = useForm(blank, action, words)
  const add = form.submit(async ({ url, events }) => {
    const body = { url: url.trim(), events }
    setSecret((await api<{ secret: string }>('POST', '/api/v1/webhooks', body)).secret)
  })
  if (secret !== undefined) {
    return html`<div class="stack">
      <p>The gateway signs messages with this secret. Store the secret now, because it is shown only once.</p>
      <${Code} title="secret" code=${secret} />
      <div class="actions"><${Button} kind="primary" onClick=${onClose}>I have stored it<//></div>
    </div>`
  }
  const { events } = form.fields
  const toggle = (kind: string) =>
    form.set({ events: events.includes(kind) ? events.filter((one) => one !== kind) : [...events, kind] })
  const wrong = form.errorAt('events')
  return html`<form class="stack" ref=${form.ref} onSubmit=${add} novalidate>
    <${Field} ...${form.at('url')} label="Address" type="url" placeholder="https://shop.example.com/hooks" />
    <fieldset class="shell-checks" data-invalid=${wrong && 'true'} aria-describedby=${wrong && 'events-error'}><legend>Events</legend>
      ${kinds.map(
        ({ kind, words }) => html`<label class="check" key=${kind}>
          <input type="checkbox" checked=${events.includes(kind)} onChange=${() => toggle(kind)} /> ${words}
        </label>`,
      )}
    </fieldset>
    ${wrong && html`<p class="wrong" id="events-error" role="alert">${wrong}</p>`}
    ${form.line}
    <div class="actions"><${Button} onClick=${onClose} aria-disabled=${action.isBusy ? 'true' : undefined}>Cancel<//><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Add<//></div>
  </form>`
}
