import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Card } from '../../components/card.ts'
import { Code } from '../../components/codeBlock.ts'
import { Notice } from '../../components/notice.ts'
import { useAction } from '../../desk/load.ts'
import { Title } from '../../desk/title.ts'
import { html } from '../../html.ts'
import { type LinkFields, LinkForm, linkBody } from '../linkForm.ts'
import { useSeller } from '../seller.ts'

interface CreatedLink {
  readonly id: string
  readonly fullUrl: string
  readonly privateUrl: string | null
  readonly linkType: 'api' | 'standard'
  readonly warnings?: readonly string[]
  readonly webhookSecret?: string
}

/** A link is made: its API is asked first, and what that said is shown. */
export function NewLink() {
  const { ask } = useSeller()
  const [created, setCreated] = useState<CreatedLink>()
  const action = useAction()
  const create = async (fields: LinkFields) =>
    setCreated(await ask<CreatedLink>('POST', '/api/v1/links', linkBody(fields)))
  const from = { href: '/dashboard/links', title: 'Links' }
  if (created !== undefined) return html`<${Made} link=${created} />`
  return html`<div class="stack">
    <${Title} from=${from}>New link<//>
    <${Card}>
      <${LinkForm} action=${action} submit="Make the link" onSubmit=${create}>
        <${Button} kind="quiet" href="/dashboard/links">Cancel<//>
      <//>
      ${
        action.fault?.code === 'API_NOT_RESPONDING' &&
        html`<p class="soft small">A paid link is made only when its API answers, so that nobody pays for nothing.</p>`
      }
    <//>
  </div>`
}

function Made({ link }: { readonly link: CreatedLink }) {
  const address = link.privateUrl ?? link.fullUrl
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/links', title: 'Links' }}>Your link is ready<//>
    ${(link.warnings ?? []).map((warning) => html`<${Notice} tone="warn" title="Some buyers can’t pay yet"><p>${warning}</p><//>`)}
    <${Card} title="Its address">
      <p class="soft">${link.linkType === 'api' ? 'Callers pay and call here.' : 'Buyers pay here, and are led to what they bought.'} ${link.privateUrl !== null && 'Everyone who has it can buy: keep it secret.'}</p>
      <${Code} title="address" code=${address} />
    <//>
    ${link.webhookSecret && html`<${WebhookSecret} secret=${link.webhookSecret} />`}
    <div class="row"><${Button} kind="primary" href=${`/dashboard/links/${link.id}`}>Go to the link<//>
      <${Button} kind="quiet" href="/dashboard/links">All links<//></div>
  </div>`
}

/** What a link's webhook is signed with, when it is new. */
export const WebhookSecret = ({ secret }: { readonly secret: string }) =>
  html`<${Card} title="Secret of its webhook">
    <p>It is shown only now. What is sent to your webhook is signed with it.</p>
    <${Code} title="secret" code=${secret} />
  <//>`
