import { useState } from 'preact/hooks'
import { Button } from '../../../../web/components/button.ts'
import { Skeleton } from '../../../../web/components/card.ts'
import { type Children, html } from '../../../../web/html.ts'
import { FormDialog } from '../../../../web/shell/dialogs.ts'
import { Title } from '../../../../web/shell/frame.ts'
import { Load, useLoad } from '../../../../web/shell/load.ts'
import type { AgentView } from '../../../agents/agents.ts'
import type { PolicyView } from '../../../host/api/policiesApi.ts'
import type { VaultLimit } from '../../../host/ownerRules.ts'
import type { Policy } from '../../../policy/policy.ts'
import { Item } from '../elements.ts'
import { call } from '../session.ts'
import { chainTitle } from '../words.ts'
import { type Asset, assetsOf } from './budget.ts'
import { PolicyForm } from './policyForm.ts'

/** An agent, `default` for agents without a policy, or `vault` for limits across all agents. */
interface Subject {
  readonly id: string
  readonly name: string
  /** What applies without a policy. */
  readonly hint: string
  readonly view?: PolicyView | undefined
}

interface Rules {
  readonly subjects: readonly Subject[]
  readonly assets: readonly Asset[]
}

async function loadRules(): Promise<Rules> {
  const [{ policies }, { agents }, assets] = await Promise.all([
    call<{ policies: readonly PolicyView[] }>('GET', '/policies'),
    call<{ agents: readonly AgentView[] }>('GET', '/agents'),
    assetsOf(),
  ])
  const views = new Map(policies.map((view) => [view.id, view]))
  const asked = 'No policy is set, so you are asked about everything.'
  const live = agents.filter(({ revoked_at }) => revoked_at === null)
  const subjects = [
    ...live.map(({ id, name }) => ({
      id,
      name,
      hint: views.has('default') ? 'The policy for all other agents applies.' : asked,
    })),
    { id: 'default', name: 'All others', hint: asked },
    { id: 'vault', name: 'Whole vault', hint: 'No limits across all agents.' },
  ]
  return { subjects: subjects.map((one) => ({ ...one, view: views.get(one.id) })), assets }
}

/** The rules by which the vault decides without asking. */
export function Policies() {
  const loaded = useLoad(loadRules, [])
  const [dialog, open] = useState<Children>()
  const close = () => open(undefined)
  const done = () => {
    close()
    loaded.reload()
  }
  const edit = ({ id, name, view }: Subject, assets: readonly Asset[]) =>
    open(html`<${PolicyForm}
      title=${`Policy: ${name}`} isVault=${id === 'vault'} policy=${view?.policy} assets=${assets} onClose=${close}
      onSend=${async (policy: object) => {
        await call('PUT', `/policies/${encodeURIComponent(id)}`, policy)
        done()
      }}
    />`)
  const remove = ({ id, name }: Subject) =>
    open(html`<${FormDialog}
      id="remove" title=${`Remove the policy: ${name}?`} action="Remove" kind="danger" onClose=${close}
      onSend=${async () => {
        await call('DELETE', `/policies/${encodeURIComponent(id)}`)
        done()
      }}
    ><p>You are then asked about everything that the policy allowed.</p><//>`)
  const cardOf = (subject: Subject, assets: readonly Asset[]) => {
    const { id, name, hint, view } = subject
    const verb = view === undefined ? 'Set' : 'Edit'
    return html`<${Item}
      key=${id} name=${name} label=${`Policy: ${name}`}
      actions=${[
        html`<${Button} size="small" aria-label=${`${verb} policy: ${name}`} onClick=${() => edit(subject, assets)}>${verb}<//>`,
        view &&
          html`<${Button} size="small" kind="danger" aria-label=${`Remove policy: ${name}`} onClick=${() => remove(subject)}>Remove<//>`,
      ]}
    >${view === undefined ? html`<p class="soft">${hint}</p>` : html`<${Summary} ...${view} />`}<//>`
  }
  return html`<div class="stack">
    <${Title}>Policies<//>
    <p class="soft">You are asked about everything that a policy does not allow. Requests above the limits of a policy are refused.</p>
    <${Load} of=${loaded} skeleton=${html`<${Skeleton} isTall=${true} />`}>
      ${({ subjects, assets }: Rules) => subjects.map((one) => cardOf(one, assets))}
    <//>
    ${dialog}
  </div>`
}

type Line = VaultLimit & { readonly autoApproveUpTo?: string }

function Summary({ policy, fees, without_scope }: PolicyView) {
  const { assets, limits, recipients } = policy as Partial<Policy> & {
    readonly limits?: readonly VaultLimit[]
  }
  const lines: readonly Line[] = [
    ...(assets ?? limits ?? []),
    ...fees.map((fee) => ({ ...fee, symbol: `Fees in ${fee.symbol}` })),
  ]
  const count = recipients === 'any' ? 0 : (recipients?.length ?? 0)
  return html`${
    lines.length === 0
      ? html`<p class="soft">No spending is allowed.</p>`
      : html`<ul class="stack">${lines.map(
          ({ chain, symbol, perTransaction, perDay, autoApproveUpTo, recipient }) => html`<li>
            <strong>${symbol}</strong><span class="soft"> on ${chainTitle(chain)}</span>
            <dl class="row">
              ${fact('without asking', 'up to', autoApproveUpTo)}${fact('per transaction', 'at most', perTransaction)}
              ${fact('per day', 'at most', perDay)}${fact('to', '', recipient)}
              ${without_scope.includes(chain) && fact('does not apply', 'no scope', `wallet.${chain}`)}
            </dl>
          </li>`,
        )}</ul>`
  }
  ${
    recipients !== undefined &&
    html`<p class="soft small">${recipients === 'any' ? 'To any recipient.' : `To ${count} listed ${count === 1 ? 'recipient' : 'recipients'}.`}</p>`
  }`
}

const fact = (term: string, before: string, value: string | undefined) =>
  value !== undefined &&
  html`<div class="vault-fact"><dt>${term}</dt><dd>${`${before} ${value}`.trim()}</dd></div>`
