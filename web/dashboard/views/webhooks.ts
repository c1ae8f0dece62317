import { useState } from 'preact/hooks'
import { Badge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Code } from '../../components/codeBlock.ts'
import { Dialog } from '../../components/dialog.ts'
import { Empty } from '../../components/empty.ts'
import { Field } from '../../components/field.ts'
import { Table } from '../../components/table.ts'
import { addressWords, type FormWords, useForm } from '../../desk/form.ts'
import { type Action, Load, useAction, useLoad } from '../../desk/load.ts'
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

const blank: { readonly url: string; readonly events: readonly string[] } = {
  url: '',
  events: ['purchase.confirmed', 'refund.due', 'link.suspended'],
}

const words: FormWords = {
  url: addressWords('Enter the address that is told, such as https://shop.example.com/hooks.'),
  events: { expected: 'Choose at least one event.', minItems: 'Choose at least one event.' },
}

function NewWebhook({ action, onClose }: { readonly action: Action; readonly onClose: () => void }) {
  const { ask } = useSeller()
  const [secret, setSecret] = useState<string>()
  const form = useForm(blank, action, words)
  const add = form.submit(async ({ url, events }) => {
    const body = { url: url.trim(), events }
    setSecret((await ask<{ secret: string }>('POST', '/api/v1/webhooks', body)).secret)
  })
  if (secret !== undefined) {
    return html`<div class="stack">
      <p>This is its secret. It is shown only now; what is sent is signed with it.</p>
      <${Code} title="secret" code=${secret} />
      <div class="actions"><${Button} kind="primary" onClick=${onClose}>I have kept it<//></div>
    </div>`
  }
  const { events } = form.fields
  const toggle = (kind: string) =>
    form.set({ events: events.includes(kind) ? events.filter((one) => one !== kind) : [...events, kind] })
  const wrong = form.errorAt('events')
  return html`<form class="stack" ref=${form.ref} onSubmit=${add} novalidate>
    <${Field} ...${form.at('url')} label="Address" type="url" placeholder="https://shop.example.com/hooks" />
    <fieldset class="desk-checks" data-invalid=${wrong && 'true'} aria-describedby=${wrong && 'events-error'}><legend>Events</legend>
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
