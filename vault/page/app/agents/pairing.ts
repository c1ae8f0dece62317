import { useEffect, useState } from 'preact/hooks'
import { Button, Icon } from '../../../../web/components/button.ts'
import { Badge, Empty, Skeleton, type Tone } from '../../../../web/components/card.ts'
import { Field, Select } from '../../../../web/components/field.ts'
import { Code } from '../../../../web/components/tabs.ts'
import { type Children, html } from '../../../../web/html.ts'
import { FormDialog, OnceDialog } from '../../../../web/shell/dialogs.ts'
import { Title } from '../../../../web/shell/frame.ts'
import { Fault, Load, useAction, useLoad } from '../../../../web/shell/load.ts'
import type { AgentView } from '../../../agents/agents.ts'
import type { PairingOffer, PairingSummary } from '../../../ports/pairings.ts'
import { asTyped, Item } from '../elements.ts'
import { page } from '../pageState.ts'
import { call } from '../session.ts'
import { Moment } from '../words.ts'

const states: Readonly<Record<string, readonly [words: string, tone: Tone]>> = {
  offered: ['Waiting for the other machine', 'warn'],
  claimed: ['Waiting for you', 'warn'],
  paired: ['Paired', 'good'],
  refused: ['Refused', 'bad'],
  revoked: ['Ended', 'plain'],
  expired: ['Expired', 'plain'],
  suspended: ['Suspended since a restore', 'warn'],
}

/** Polling interval while an offer is open, in ms. The other machine may connect at any moment. */
const POLL_MS = 2_000

interface Loaded {
  readonly pairings: readonly PairingSummary[]
  readonly agents: readonly AgentView[]
}

const post = (id: string, verb: 'confirm' | 'refuse' | 'revoke') =>
  call('POST', `/pairings/${encodeURIComponent(id)}/${verb}`, {})

/** The pairings. They are polled while one of them waits for the other machine. */
function usePairings() {
  const loaded = useLoad<Loaded>(async () => {
    const [{ pairings }, { agents }] = await Promise.all([
      call<Pick<Loaded, 'pairings'>>('GET', '/pairings'),
      call<Pick<Loaded, 'agents'>>('GET', '/agents'),
    ])
    return { pairings, agents }
  }, [])
  const { data, reload } = loaded
  useEffect(() => {
    if (!data?.pairings.some(({ state }) => state === 'offered' || state === 'claimed')) return
    const timer = setTimeout(reload, POLL_MS)
    return () => clearTimeout(timer)
  }, [data])
  return loaded
}

/** Agents on other machines. */
export function Pairing() {
  const loaded = usePairings()
  const [dialog, open] = useState<Children>()
  const { data, fault, reload } = loaded
  const close = () => open(undefined)

  const add = () => {
    const live = (data?.agents ?? []).filter(({ revoked_at }) => revoked_at === null)
    open(
      html`<${OfferForm} names=${live.map(({ name }) => name)} onClose=${close} onOffer=${(
        made: PairingOffer & { service: string },
      ) => {
        close()
        page.showSecret(html`<${Offer} offer=${made} />`)
        reload()
      }} />`,
    )
  }
  const revoke = ({ id, service_id }: PairingSummary) =>
    open(html`<${FormDialog}
      id="end" title=${`End the pairing with ${service_id}?`} action="End pairing" kind="danger" onClose=${close}
      onSend=${async () => {
        await post(id, 'revoke')
        close()
        reload()
      }}
    ><p>The other machine loses access to this vault. To pair the machine again, make a new command.</p><//>`)
  const draw = ({ pairings, agents }: Loaded) => {
    if (pairings.length === 0)
      return html`<${Empty} title="No other machine is paired">
        <p>Pair a server so that an agent on it can use this vault. Keys stay in the vault. Results are sent end-to-end encrypted.</p>
      <//>`
    const nameOf = (agentId: string) => agents.find(({ id }) => id === agentId)?.name ?? agentId
    return pairings.map(
      (one) =>
        html`<${Card} key=${one.id} pairing=${one} agent=${nameOf(one.agent_id)} onChanged=${reload} onRevoke=${() => revoke(one)} />`,
    )
  }
  const hasRelay = fault?.code !== 'NOT_FOUND'
  const addButton = html`<${Button} kind="primary" onClick=${add}><${Icon} name="plus" />New pairing<//>`
  return html`<div class="stack">
    <${Title} actions=${hasRelay && addButton}>Pairing<//>
    ${
      hasRelay
        ? html`<${Load} of=${loaded} skeleton=${html`<${Skeleton} isTall=${true} />`}>${draw}<//>`
        : html`<${Empty} title="This vault is not connected to a relay">
            <p>Agents on this machine need no relay. For agents on other machines, start the vault with a relay:</p>
            <${Code} title="command" code="tollgate vault --relay wss://relay.example.com" />
            <p>A relay carries ciphertext only. Run your own with tollgate relay.</p>
          <//>`
    }
    ${dialog}
  </div>`
}

interface CardProps {
  readonly pairing: PairingSummary
  readonly agent: string
  readonly onChanged: () => void
  readonly onRevoke: () => void
}

function Card({ pairing, agent, onChanged, onRevoke }: CardProps) {
  const { id, service_id, state, created_at, expires_at, phrase } = pairing
  const action = useAction()
  const act = (work: () => Promise<unknown>) => () => action.run(() => work().finally(onChanged))
  const resume = () => call('PATCH', `/pairings/${encodeURIComponent(id)}`, { suspended: false })
  const [words, tone] = states[state] ?? [state, 'plain']
  const isOver = /^(refused|revoked|expired)$/.test(state)
  const actions =
    phrase === null
      ? [
          state === 'suspended' &&
            html`<${Button} size="small" kind="primary" aria-label=${`Resume ${service_id}`} onClick=${act(resume)}>Resume<//>`,
          html`<${Button} size="small" kind="danger" aria-label=${`Revoke ${service_id}`} onClick=${onRevoke}>Revoke<//>`,
        ]
      : [
          html`<${Button} kind="primary" onClick=${act(() => post(id, 'confirm'))}>The words match<//>`,
          html`<${Button} kind="danger" onClick=${act(() => post(id, 'refuse'))}>The words differ<//>`,
        ]
  return html`<${Item} name=${service_id} what=${`as ${agent}`} end=${html`<${Badge} tone=${tone}>${words}<//>`} actions=${!isOver && actions}>
    ${
      phrase === null
        ? html`<p class="soft small">Since <${Moment} at=${created_at} />${state === 'offered' && html`, open until <${Moment} at=${expires_at} />`}</p>`
        : html`<div role="alert"><p>Does the other machine show these four words?</p><p class="vault-phrase">${phrase}</p></div>`
    }
    <${Fault} of=${action} />
  <//>`
}

interface OfferFormProps {
  readonly names: readonly string[]
  readonly onClose: () => void
  readonly onOffer: (offer: PairingOffer & { readonly service: string }) => void
}

function OfferForm({ names, onClose, onOffer }: OfferFormProps) {
  const [service, setService] = useState('')
  const [agent, setAgent] = useState(names[0] ?? '')
  const send = async () =>
    onOffer({ ...(await call<PairingOffer>('POST', '/pairings', { service_id: service, agent })), service })
  return html`<${FormDialog} id="offer" title="Pair an agent on another machine" action="Create command" onClose=${onClose} onSend=${send}>
    <${Field}
      id="service" label="Service" maxlength="64" required hint="A name for the remote program, such as vps-1."
      value=${service} onInput=${setService} ...${asTyped}
    />
    <${Select}
      id="agent" label="Agent" options=${names.map((name) => ({ value: name, label: name }))} value=${agent} onChange=${setAgent}
      hint=${names.length === 0 ? 'Add an agent first.' : 'The service gets the scopes and policies of this agent.'}
    />
  <//>`
}

const endings: Readonly<Record<string, string>> = {
  paired: 'Paired. The agent can now reach this vault.',
  refused: 'Refused, because the words differ. Create a new command and send it over another channel.',
  expired: 'Expired, because the command was not used in time. Create a new command.',
  revoked: 'Ended.',
}

interface OfferProps {
  readonly offer: PairingOffer & { readonly service: string }
}

/** The command of a new pairing, which is shown once, then its progress and the words to compare. */
function Offer({ offer }: OfferProps) {
  const { id, service, command, expires_at } = offer
  const { data, reload } = usePairings()
  const { state = 'offered', phrase = null } = data?.pairings.find((one) => one.id === id) ?? {}
  const action = useAction()
  const decide = (verb: 'confirm' | 'refuse') => () => action.run(() => post(id, verb).finally(reload))
  return html`<${OnceDialog}
    id="command" title=${`Pair ${service}`} what="command" secret=${command} isUsed=${state !== 'offered'} onClose=${page.dismissSecret}
    intro="Run this command on the other machine. The command works once. It contains a secret token, so send it over a channel that you trust."
  >
    <h3>On the other machine</h3>
    <div class="stack" role="status">
      ${
        phrase !== null
          ? html`<p>Does the other machine show these four words?</p>
            <p class="vault-phrase">${phrase}</p>
            <div class="row">
              <${Button} kind="primary" onClick=${decide('confirm')}>They match<//>
              <${Button} kind="danger" onClick=${decide('refuse')}>They differ<//>
            </div>`
          : state === 'offered'
            ? html`<p>Not used yet. The command is valid until <${Moment} at=${expires_at} />.</p>`
            : html`<p>${endings[state] ?? 'The other machine has connected. The four words appear in a moment.'}</p>`
      }
    </div>
    <${Fault} of=${action} />
  <//>`
}
