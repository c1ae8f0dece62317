import { useRef, useState } from 'preact/hooks'
import { Button, Icon } from '../../../../web/components/button.ts'
import { Empty, Notice, Skeleton } from '../../../../web/components/card.ts'
import { showToast } from '../../../../web/components/dialog.ts'
import { Field } from '../../../../web/components/field.ts'
import { type Children, html } from '../../../../web/html.ts'
import { FormDialog, OnceDialog } from '../../../../web/shell/dialogs.ts'
import { Title } from '../../../../web/shell/frame.ts'
import { Load, useLoad } from '../../../../web/shell/load.ts'
import type { AgentView } from '../../../agents/agents.ts'
import { asTyped, Item } from '../elements.ts'
import { page } from '../pageState.ts'
import { assetsOf } from '../policies/budget.ts'
import { call } from '../session.ts'
import { Moment } from '../words.ts'
import { isLoud } from './grants.ts'
import { ScopePicker } from './scopePicker.ts'

/** The agents and their scopes. */
export function Agents() {
  const loaded = useLoad(() => call<{ agents: readonly AgentView[] }>('GET', '/agents'), [])
  const [dialog, open] = useState<Children>()
  const close = () => open(undefined)
  const showToken = ({ name, token }: { readonly name: string; readonly token: string }) => {
    close()
    page.showSecret(html`<${OnceDialog}
      id="token" title=${`The token of ${name}`} what="token" secret=${token}
      intro="Give the token to the agent now, because it is shown only once." onClose=${page.dismissSecret}
    ><p class="soft">The agent sends it as <code>Authorization: Bearer …</code> to <code>${location.origin}</code>.</p><//>`)
  }
  const done = () => {
    close()
    loaded.reload()
  }

  const add = () =>
    open(
      html`<${AgentForm} onClose=${close} onSend=${async (body: object) => {
        showToken(await call('POST', '/agents', body))
        loaded.reload()
      }} />`,
    )
  const edit = (agent: AgentView) =>
    open(
      html`<${AgentForm} agent=${agent} onClose=${close} onSend=${async (body: object) => {
        await call('PATCH', `/agents/${agent.id}`, body)
        done()
      }} />`,
    )
  const rotate = ({ id, name }: AgentView) =>
    open(html`<${FormDialog}
      id="rotate" title=${`A new token for ${name}?`} action="Make a new token" onClose=${close}
      onSend=${async () => showToken({ ...(await call<{ token: string }>('POST', `/agents/${id}/rotate`, {})), name })}
    ><p>The old token stops working at once.</p><//>`)
  const revoke = ({ id, name }: AgentView) =>
    open(html`<${FormDialog}
      id="revoke" title=${`Revoke ${name}?`} action="Revoke" kind="danger" onClose=${close}
      onSend=${async () => {
        await call('POST', `/agents/${id}/revoke`, {})
        done()
      }}
    ><p>The agent loses all access, and its open requests are canceled. A revoked agent cannot be restored, but its name can be used again.</p><//>`)
  const resume = ({ id, name }: AgentView) =>
    call('PATCH', `/agents/${id}`, { suspended: false }).then(loaded.reload, ({ message }: Error) =>
      showToast({ text: `${name} is still suspended. ${message}`, tone: 'bad' }),
    )

  const cardOf = (agent: AgentView) => {
    const { id, name, scopes, requests_per_minute, created_at, suspended } = agent
    const button = (label: string, act: (agent: AgentView) => unknown, of: string, kind?: string) =>
      html`<${Button} size="small" kind=${kind} aria-label=${of} onClick=${() => act(agent)}>${label}<//>`
    return html`<${Item}
      key=${id}
      name=${name}
      end=${html`<span class="soft small">added <${Moment} at=${created_at} /></span>`}
      actions=${[
        suspended && button('Resume', resume, `Resume ${name}`, 'primary'),
        button('Change', edit, `Change ${name}`),
        button('New token', rotate, `New token for ${name}`),
        button('Revoke', revoke, `Revoke ${name}`, 'danger'),
      ]}
    >
      ${
        scopes.length === 0
          ? html`<p class="soft">This agent has no scopes yet. Choose “Change” to add scopes.</p>`
          : html`<ul class="row" aria-label="Scopes">${scopes.map(
              (scope) =>
                html`<li class="badge" data-tone=${isLoud(scope) ? 'bad' : 'plain'} title=${isLoud(scope) ? 'The agent gets the secret itself' : undefined}><code>${scope}</code></li>`,
            )}</ul>`
      }
      <p class="soft small">${`At most ${requests_per_minute} requests per minute.`}</p>
      ${suspended && html`<${Notice} tone="warn" title="This agent is suspended since the vault was restored from a backup. Resume the agent if you still use it." />`}
    <//>`
  }
  const addButton = html`<${Button} kind="primary" onClick=${add}><${Icon} name="plus" />Add agent<//>`
  return html`<div class="stack">
    <${Title} actions=${addButton}>Agents<//>
    <${Load} of=${loaded} skeleton=${html`<${Skeleton} isTall=${true} />`}>${({
      agents,
    }: {
      readonly agents: readonly AgentView[]
    }) => {
      const live = agents.filter(({ revoked_at }) => revoked_at === null)
      const revoked = agents.filter(({ revoked_at }) => revoked_at !== null)
      return html`${
        live.length > 0
          ? live.map(cardOf)
          : html`<${Empty} title="No agents yet"><p>Add an agent, give it the scopes that it needs, and give it the token.</p><//>`
      }
      ${
        revoked.length > 0 &&
        html`<details class="soft shell-more">
          <summary>${`${revoked.length} revoked`}</summary>
          <ul class="shell-list card">${revoked.map(({ id, name, revoked_at }) => html`<li key=${id}><span>${name}</span><${Moment} at=${revoked_at} /></li>`)}</ul>
        </details>`
      }`
    }}<//>
    ${dialog}
  </div>`
}

/**
 * The rate as it is sent. An invalid number is sent as text, so that the vault reports it. JSON would send NaN as `null`, which
 * is the default rate.
 */
const rateOf = (typed: string): number | string | null =>
  /^\s*$/.test(typed) ? null : /^\s*\d{1,15}\s*$/.test(typed) ? Number(typed) : typed

interface AgentFormProps {
  /** Absent for a new agent. */
  readonly agent?: AgentView
  readonly onClose: () => void
  readonly onSend: (body: object) => Promise<unknown>
}

/** An agent's name, scopes and rate. If the vault cannot list its scopes, the owner types them. */
function AgentForm({ agent, onClose, onSend }: AgentFormProps) {
  const [name, setName] = useState('')
  const [rate, setRate] = useState(String(agent?.requests_per_minute ?? ''))
  const lines = useRef(() => agent?.scopes ?? [])
  const choices = useLoad(async () => {
    const [stored, assets] = await Promise.all([
      call<{ scopes: readonly { scope: string }[] }>('GET', '/scopes').catch(() => ({ scopes: [] })),
      assetsOf().catch(() => []),
    ])
    return { stored: stored.scopes.map(({ scope }) => scope), chains: assets.map(({ chain }) => chain) }
  }, [])
  const send = () =>
    onSend({
      ...(agent === undefined && { name }),
      scopes: lines.current!(),
      requests_per_minute: rateOf(rate),
    })
  return html`<${FormDialog}
    id="agent" title=${agent ? `Change ${agent.name}` : 'Add an agent'} action=${agent ? 'Save' : 'Add agent'} isWide=${true}
    onClose=${onClose} onSend=${send}
  >
    ${!agent && html`<${Field} id="name" label="Name" maxlength="64" required hint="Every approval and the log show this name." value=${name} onInput=${setName} ...${asTyped} />`}
    <${Load} of=${choices}>${(known: object) => html`<${ScopePicker} ...${known} granted=${agent?.scopes ?? []} lines=${lines} />`}<//>
    <${Field} id="rate" label="Requests per minute" inputmode="numeric" hint="Leave empty for 120." value=${rate} onInput=${setRate} ...${asTyped} />
  <//>`
}
