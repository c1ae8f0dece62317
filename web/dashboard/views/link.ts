import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Code } from '../../components/codeBlock.ts'
import { Dialog } from '../../components/dialog.ts'
import { Notice } from '../../components/notice.ts'
import { exactTime, Time } from '../../components/time.ts'
import { showToast } from '../../components/toast.ts'
import { Fault, Load, useAction, useLoad } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { msOf } from '../../desk/words.ts'
import { html } from '../../html.ts'
import { Timeline } from '../healthTimeline.ts'
import { type LinkFields, LinkForm, linkBody } from '../linkForm.ts'
import { useSeller } from '../seller.ts'
import type { HealthAnswer, LinkAnswer, ProbeAnswer } from '../types.ts'
import { LinkState } from './links.ts'
import { WebhookSecret } from './newLink.ts'

/** One link: its address, its health, what it is made of. */
export function Link({ id }: { readonly id: string }) {
  const { ask } = useSeller()
  const link = useLoad(() => ask<LinkAnswer>('GET', `/api/v1/links/${id}`), [id])
  return html`<${Load} of=${link}>${(data: LinkAnswer) => html`<${LinkView} link=${data} onChanged=${link.set} onStale=${link.reload} />`}<//>`
}

interface LinkViewProps {
  readonly link: LinkAnswer
  readonly onChanged: (link: LinkAnswer) => void
  readonly onStale: () => void
}

function LinkView({ link, onChanged, onStale }: LinkViewProps) {
  const { ask, publicUrl, store } = useSeller()
  const save = useAction()
  const [webhookSecret, setWebhookSecret] = useState<string>()
  const update = async (fields: LinkFields) => {
    const body = linkBody(fields, link)
    if (Object.keys(body).length > 0) {
      const path = `/api/v1/links/${link.id}`
      const changed = await ask<LinkAnswer & { webhookSecret?: string }>('PATCH', path, body)
      setWebhookSecret(changed.webhookSecret)
      onChanged(changed)
    }
    showToast({ text: 'Saved' })
  }
  const address = `${publicUrl}/api/link/${store.username}/${link.privateSlug ?? link.slug}`
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/links', title: 'Links' }} actions=${html`<${LinkState} link=${link} />`}>${link.title}<//>
    ${link.suspension !== null && html`<${Suspended} link=${link} onStale=${onStale} />`}
    ${!link.isActive && html`<${Notice} title="This link was deleted"><p>Its record and its purchases are kept.</p><//>`}
    ${webhookSecret && html`<${WebhookSecret} secret=${webhookSecret} />`}
    <div class="desk-two">
      <div class="stack">
        <${Card} title="Address"><div class="stack"><${Code} title="address" code=${address} />
          <p class="row">${!link.isStealth && html`<a href=${`/${store.username}/${link.slug}`}>Its page</a>`}
            <a href=${`/dashboard/purchases?linkId=${link.id}`}>Its purchases</a></p></div>
        <//>
        ${link.linkType === 'api' && html`<${Health} link=${link} />`}
      </div>
      ${
        link.isActive &&
        html`<${Card} title="What it is">
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
  readonly link: LinkAnswer
  readonly onStale: () => void
}) {
  const { ask } = useSeller()
  const action = useAction()
  const { reason, cooldownUntil, permanent } = suspension!
  const isCooling = msOf(cooldownUntil) > Date.now()
  const reEnable = () =>
    action.run(async () => {
      await ask('POST', `/api/v1/links/${id}/re-enable`)
      showToast({ text: 'The link is open again' })
      onStale()
    })
  return html`<${Notice} tone="bad" title="This link is suspended: nobody can buy it">
    <p dir="auto">${reason}</p>
    ${permanent && html`<p>It was suspended too often to be re-enabled here. Ask the operator.</p>`}
    ${!permanent && isCooling && html`<p>It can be re-enabled <${Time} atMs=${msOf(cooldownUntil)} nowMs=${Date.now()} />, after two good checks.</p>`}
    ${!permanent && !isCooling && html`<p><${Button} isBusy=${action.isBusy} onClick=${reEnable}>Check the API and re-enable it<//></p>`}
    <${Fault} of=${action} />
  <//>`
}

function Health({ link }: { readonly link: LinkAnswer }) {
  const { ask } = useSeller()
  const health = useLoad(
    () => ask<HealthAnswer>('GET', `/api/v1/links/${link.id}/health?limit=60`),
    [link.id],
  )
  const [report, setReport] = useState<ProbeAnswer>()
  const action = useAction()
  const test = () =>
    action.run(async () => {
      setReport(await ask<ProbeAnswer>('POST', `/api/v1/links/${link.id}/test`))
      health.reload()
    })
  const button =
    link.isActive && html`<${Button} size="small" isBusy=${action.isBusy} onClick=${test}>Test call<//>`
  return html`<${Card} title="Health" actions=${button}>
    <div class="stack">
      <div aria-live="polite">${report && html`<${Report} report=${report} />`}</div>
      <${Fault} of=${action} />
      <${Load} of=${health}>${(data: HealthAnswer) => html`<${Timeline} health=${data} />`}<//>
    </div>
  <//>`
}

const Report = ({ report: { ok, status, latencyMs, detail, checkedAt } }: { readonly report: ProbeAnswer }) =>
  html`<${Notice} tone=${ok ? 'good' : 'bad'} title=${ok ? 'The API answers' : 'The API does not answer as it should'}>
    <p dir="auto">${detail}</p>
    <p class="small">${status === null ? 'No answer' : html`HTTP <code>${status}</code>`} · ${latencyMs} ms · ${exactTime(msOf(checkedAt))}</p>
  <//>`

function Delete({ link }: { readonly link: LinkAnswer }) {
  const { ask, go } = useSeller()
  const [isOpen, setOpen] = useState(false)
  const action = useAction()
  const close = () => setOpen(false)
  const remove = () =>
    action.run(async () => {
      await ask('DELETE', `/api/v1/links/${link.id}`)
      showToast({ text: 'The link was deleted' })
      go('/dashboard/links')
    })
  return html`<div class="row"><${Button} kind="danger" onClick=${() => setOpen(true)}>Delete<//>
    <${Dialog} id="delete" title="Delete this link?" isOpen=${isOpen} onClose=${close}>
      <p>Nobody can call it any more. What was bought stays in your purchases. This can’t be taken back.</p>
      <${Fault} of=${action} />
      <div class="actions"><${Button} onClick=${close}>Keep it<//>
        <${Button} kind="danger" isBusy=${action.isBusy} onClick=${remove}>Delete the link<//></div>
    <//></div>`
}
