import { useState } from 'preact/hooks'
import { Button } from '../../../../web/components/button.ts'
import { Field, Select } from '../../../../web/components/field.ts'
import { html } from '../../../../web/html.ts'
import { FormDialog } from '../../../../web/shell/dialogs.ts'
import type { Policy } from '../../../policy/policy.ts'
import { asTyped } from '../elements.ts'
import { Refusal } from '../session.ts'
import type { Asset } from './budget.ts'
import { type Limit, Limits, limitsOf, type Row, rowsOf } from './limits.ts'

/**
 * An agent's policy, or the limits of the vault. Fields that the form does not show, such as fees and hours, stay unchanged.
 */
type Rules = Partial<Policy> & { readonly limits?: readonly Limit[] }

interface Draft {
  readonly rules: Rules
  readonly rows: readonly Row[]
  /** Addresses, one per line. */
  readonly addresses: string
}

const START_OF_VAULT: Rules = { limits: [{ chain: 'base', symbol: 'USDC', perDay: '100' }] }

const options = (...all: readonly (readonly [string, string])[]) =>
  all.map(([value, label]) => ({ value, label }))
const askOrDeny = options(['ask', 'Ask me'], ['deny', 'Refuse'])

const draftOf = (rules: Rules, isVault: boolean): Draft => ({
  rules: isVault ? { limits: [], ...rules } : { assets: [], recipients: 'any', ...rules },
  rows: rowsOf((isVault ? rules.limits : rules.assets) ?? []),
  addresses: (Array.isArray(rules.recipients) ? rules.recipients : [])
    .map(({ chain, address }) => `${chain} ${address}`)
    .join('\n'),
})

function rulesOf({ rules, rows, addresses }: Draft, isVault: boolean): Rules {
  if (isVault) return { ...rules, limits: limitsOf(rows, 'vault') }
  const { recipients, otherRecipients = 'deny', allowances = 'ask', opaque = 'ask', messages = 'ask' } = rules
  const listed = addresses.split(/[\n,]/).flatMap((line) => {
    const [chain = '', address = ''] = line.trim().split(/\s+/)
    return chain === '' ? [] : [{ chain, address }]
  })
  return {
    ...rules,
    assets: limitsOf(rows, 'agent') as Policy['assets'],
    ...(recipients === 'any' ? { recipients } : { recipients: listed, otherRecipients }),
    allowances,
    opaque,
    messages,
  }
}

interface PolicyFormProps {
  readonly title: string
  readonly isVault: boolean
  readonly policy: unknown
  readonly assets: readonly Asset[]
  readonly onClose: () => void
  readonly onSend: (policy: object) => Promise<unknown>
}

/** A form for the usual limits. All other fields are edited as JSON. */
export function PolicyForm({ title, isVault, policy, assets, onClose, onSend }: PolicyFormProps) {
  const [draft, setDraft] = useState(() =>
    draftOf((policy as Rules) ?? (isVault ? START_OF_VAULT : {}), isVault),
  )
  /** The JSON that is edited instead of the form. */
  const [json, setJson] = useState<string>()
  const [problem, setProblem] = useState<string>()
  const back = () => {
    try {
      setDraft(draftOf(parse(json!), isVault))
      setJson(undefined)
      setProblem(undefined)
    } catch (error) {
      setProblem((error as Error).message)
    }
  }
  const toJson = () => setJson(JSON.stringify(rulesOf(draft, isVault), null, 2))
  const send = async () => onSend(json === undefined ? rulesOf(draft, isVault) : parse(json))
  return html`<${FormDialog} id="policy" title=${title} action="Save" isWide=${true} onClose=${onClose} onSend=${send}>
    ${
      json === undefined
        ? html`<${DraftFields} draft=${draft} isVault=${isVault} assets=${assets} onChange=${(part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }))} />`
        : html`<${Field}
            id="json" label="As JSON" class="input mono" rows=${16} value=${json} onInput=${setJson} error=${problem} ...${asTyped}
            hint=${
              isVault
                ? 'limits: chain, symbol, and any of perTransaction, perDay, recipient; fees: chain, perTransaction, perDay. Amounts as strings.'
                : 'All fields of a policy: assets, fees, recipients, otherRecipients, allowances, deposits, opaque, messages, hours.'
            }
          />`
    }
    <div><${Button} size="small" onClick=${json === undefined ? toJson : back}>${json === undefined ? 'Edit as JSON' : 'Back to the form'}<//></div>
  <//>`
}

interface DraftFieldsProps {
  readonly draft: Draft
  readonly isVault: boolean
  readonly assets: readonly Asset[]
  readonly onChange: (part: Partial<Draft>) => void
}

function DraftFields({ draft: { rules, rows, addresses }, isVault, assets, onChange }: DraftFieldsProps) {
  const set = (part: object) => onChange({ rules: { ...rules, ...part } })
  const limits = html`<${Limits} of=${isVault ? 'vault' : 'agent'} rows=${rows} assets=${assets} onChange=${(next: readonly Row[]) => onChange({ rows: next })} />`
  if (isVault)
    return html`<p class="soft">These limits apply to all agents together, in addition to each agent’s own policy. Requests above them are refused.</p>${limits}`
  const who = rules.recipients === 'any' ? 'any' : 'listed'
  return html`<h3>Spending</h3>
    ${limits}
    <h3>Recipients</h3>
    <${Select}
      id="who" label="May pay" value=${who} options=${options(['any', 'Any recipient'], ['listed', 'Listed recipients only'])}
      onChange=${(value: string) => set({ recipients: value === 'any' ? 'any' : [] })}
    />
    ${
      who === 'listed' &&
      html`<${Field}
          id="recipients" label="Addresses" class="input mono" rows=${4} hint="One per line: chain and address, such as base 0x…"
          value=${addresses} onInput=${(value: string) => onChange({ addresses: value })} ...${asTyped}
        />
        <${Select} id="others" label="Other recipients" options=${askOrDeny} value=${rules.otherRecipients ?? 'deny'} onChange=${(otherRecipients: string) => set({ otherRecipients })} />`
    }
    <h3>Otherwise</h3>
    <div class="shell-filters">
      <${Select}
        id="allowances" label="Allowances" hint="Rights to take money later." options=${[...options(['auto', 'Within the limits']), ...askOrDeny]}
        value=${rules.allowances ?? 'ask'} onChange=${(allowances: string) => set({ allowances })}
      />
      <${Select} id="opaque" label="Not fully decoded" options=${askOrDeny} value=${rules.opaque ?? 'ask'} onChange=${(opaque: string) => set({ opaque })} />
      <${Select}
        id="messages" label="Messages" hint="Texts that move no money." options=${[...options(['auto', 'Sign them']), ...askOrDeny]}
        value=${rules.messages ?? 'ask'} onChange=${(messages: string) => set({ messages })}
      />
    </div>`
}

/** @throws {Refusal} */
function parse(text: string): Rules {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // The error is thrown below.
  }
  throw new Refusal(400, 'VALIDATION_ERROR', 'Expected a JSON object.')
}
