import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Card, Notice } from '../../components/card.ts'
import { Code } from '../../components/tabs.ts'
import { html } from '../../html.ts'
import { Title } from '../../shell/frame.ts'
import { useAction } from '../../shell/load.ts'
import { type LinkFields, LinkForm, linkBody } from '../linkForm.ts'
import { useSeller } from '../seller.ts'

interface CreatedLink {
  readonly id: string
  readonly fullUrl: string
  readonly privateUrl: string | null
  readonly linkType: 'api' | 'standard'
  readonly warnings?: readonly string[]
  readonly webhookSecret?: string
  readonly priceSecret?: string
}

/** Creates a link. The gateway first calls the link's API. If that fails, the view shows the error. */
export function NewLink() {
  const { api } = useSeller()
  const [created, setCreated] = useState<CreatedLink>()
  const action = useAction()
  const create = async (fields: LinkFields) =>
    setCreated(await api<CreatedLink>('POST', '/api/v1/links', linkBody(fields)))
  const from = { href: '/dashboard/links', title: 'Links' }
  if (created !== undefined) return html`<${Made} link=${created} />`
  return html`<div class="stack">
    <${Title} from=${from}>New link<//>
    <${Card}>
      <${LinkForm} action=${action} submit="Create link" onSubmit=${create}>
        <${Button} kind="quiet" href="/dashboard/links">Cancel<//>
      <//>
      ${
        action.fault?.code === 'API_NOT_RESPONDING' &&
        html`<p class="soft small">A paid link is created only if its API responds, so that buyers do not pay for nothing.</p>`
      }
    <//>
  </div>`
}

function Made({ link }: { readonly link: CreatedLink }) {
  const address = link.privateUrl ?? link.fullUrl
  return html`<div class="stack">
    <${Title} from=${{ href: '/dashboard/links', title: 'Links' }}>Your link is ready<//>
    ${(link.warnings ?? []).map((warning) => html`<${Notice} tone="warn" title="Some buyers can’t pay yet"><p>${warning}</p><//>`)}
    <${Card} title="Address">
      <p class="soft">${link.linkType === 'api' ? 'Buyers pay and call the link at this address.' : 'Buyers pay at this address and are then sent to what they bought.'} ${link.privateUrl !== null && 'Keep this address secret, because everyone who has it can buy.'}</p>
      <${Code} title="address" code=${address} />
    <//>
    ${link.webhookSecret && html`<${WebhookSecret} secret=${link.webhookSecret} />`}
    ${link.priceSecret && html`<${PriceSecret} secret=${link.priceSecret} />`}
    <div class="row"><${Button} kind="primary" href=${`/dashboard/links/${link.id}`}>Go to the link<//>
      <${Button} kind="quiet" href="/dashboard/links">All links<//></div>
  </div>`
}

/** The secret that signs the messages to a link's new webhook. */
export const WebhookSecret = ({ secret }: { readonly secret: string }) =>
  html`<${Card} title="Webhook secret">
    <p>The gateway signs messages to your webhook with this secret. Store the secret now, because it is shown only once.</p>
    <${Code} title="secret" code=${secret} />
  <//>`

/** The secret that signs the requests to the server that states a link's prices. */
export const PriceSecret = ({ secret }: { readonly secret: string }) =>
  html`<${Card} title="Price secret">
    <p>The gateway signs requests to your price server with this secret. It is shown again when you save the prices.</p>
    <${Code} title="secret" code=${secret} />
  <//>`
