import { useRef, useState } from 'preact/hooks'
import { Button } from '../../../../web/components/button.ts'
import { Notice } from '../../../../web/components/card.ts'
import { Field, Select } from '../../../../web/components/field.ts'
import { html } from '../../../../web/html.ts'
import { asTyped } from '../elements.ts'
import { chainTitle } from '../words.ts'
import { choicesOf, exactScopes, isLoud, kindOfScope, problemOf, splitGrant } from './grants.ts'

/** The groups, by the first segment of their scopes. */
const groups: Readonly<Record<string, readonly string[]>> = {
  Wallets: ['wallet'],
  'Who you are': ['identity'],
  Addresses: ['address'],
  'API credentials': ['credentials'],
  'Preferences and custom': ['preferences', 'custom'],
  'The vault': ['vault'],
}

const titles: Readonly<Record<string, string>> = {
  'identity.name': 'Full name',
  'identity.email': 'E-mail',
  'identity.phone': 'Phone',
  'identity.birth_date': 'Date of birth',
  'identity.nationality': 'Nationality',
  'identity.organization': 'Organization',
  'identity.tax_id': 'Tax number',
  'identity.username': 'User name',
  'identity.website': 'Website',
  'address.home': 'Home',
  'address.work': 'Work',
  'vault.lock': 'Lock the vault',
}

function titleOfScope(scope: string): string | undefined {
  const isChain = kindOfScope(scope) === 'wallet' && !scope.endsWith('*')
  return titles[scope] ?? (isChain ? chainTitle(scope.slice('wallet.'.length)) : undefined)
}

/** One scope in the list. The grant that the agent has stays selectable, even if it is not among the usual ones. */
interface Row {
  readonly scope: string
  readonly first: string
  readonly before: string
  readonly isChosen: boolean
  /** True if the scope is granted or was added by name. Its group is open at first. */
  readonly isGiven: boolean
}

const rowOf = (line: string, isGiven: boolean): Row => {
  const { before, scope } = splitGrant(line)
  return { scope, first: before, before, isChosen: isGiven, isGiven }
}
const lineOf = ({ before, scope }: Row): string => `${before}${scope}`

interface ScopePickerProps {
  readonly granted: readonly string[]
  /** Scopes that hold a value now. */
  readonly stored: readonly string[]
  readonly chains: readonly string[]
  /** Set to a function that returns the chosen grants. The vault validates them. */
  readonly lines: { current: (() => readonly string[]) | null }
}

/** A form for an agent's scopes. The owner selects them from a list or types them. */
export function ScopePicker({ granted, stored, chains, lines }: ScopePickerProps) {
  const [rows, setRows] = useState<readonly Row[]>(() => {
    const taken = new Set(granted.map((line) => splitGrant(line).scope))
    const known = new Set([...chains.map((chain) => `wallet.${chain}`), ...exactScopes, ...stored])
    const others = [...known].filter((scope) => !taken.has(scope))
    return [
      ...granted.map((line) => rowOf(line, true)),
      ...others.map((scope) => rowOf(`${choicesOf(scope)[0]?.[0] ?? ''}${scope}`, false)),
    ]
  })
  const [own, setOwn] = useState('')
  const [problem, setProblem] = useState<string>()
  const element = useRef<HTMLElement>(null)
  // A scope that was typed but not added counts too.
  lines.current = () => [
    ...new Set([...rows.filter(({ isChosen }) => isChosen).map(lineOf), own.trim()].filter(Boolean)),
  ]
  const change = (row: Row, part: Partial<Row>) =>
    setRows(rows.map((one) => (one === row ? { ...one, ...part } : one)))
  const add = () => {
    const line = own.trim()
    const wrong = problemOf(line)
    setProblem(wrong)
    if (wrong !== undefined) return element.current?.querySelector<HTMLElement>('#own-scope')?.focus()
    const same = rows.find((row) => lineOf(row) === line)
    if (same) change(same, { isChosen: true, isGiven: true })
    else setRows([...rows, rowOf(line, true)])
    setOwn('')
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return
    // Enter adds the scope and does not submit the form.
    event.preventDefault()
    add()
  }

  return html`<fieldset class="vault-scopes" ref=${element}>
    <legend>What the agent may use</legend>
    ${Object.entries(groups).map(([title, firsts]) => {
      const mine = rows.filter(({ scope }) => firsts.includes(scope.split('.', 1)[0]!))
      const chosen = mine.filter(({ isChosen }) => isChosen).length
      return html`<details key=${title} open=${mine.some(({ isGiven }) => isGiven)}>
        <summary>${title} <span class="soft small">${chosen > 0 && `${chosen} chosen`}</span></summary>
        ${mine.map((row) => html`<${ScopeRow} key=${rows.indexOf(row)} id=${`way-${rows.indexOf(row)}`} row=${row} onChange=${(part: Partial<Row>) => change(row, part)} />`)}
        ${mine.length === 0 && html`<p class="soft small">None yet. Add one below.</p>`}
      </details>`
    })}
    <div class="shell-search">
      <${Field}
        id="own-scope" label="Another scope" placeholder="credentials.api.github" value=${own} error=${problem}
        hint="You can also use names of your own, such as ask:custom.*, credentials.api.<provider>, address.shipping.<name>."
        onInput=${setOwn} onKeyDown=${onKeyDown} ...${asTyped}
      />
      <${Button} aria-label="Add this scope" onClick=${add}>Add<//>
    </div>
  </fieldset>`
}

interface ScopeRowProps {
  readonly id: string
  readonly row: Row
  readonly onChange: (part: Partial<Row>) => void
}

function ScopeRow({ id, row, onChange }: ScopeRowProps) {
  const { scope, first, before, isChosen } = row
  const choices = [...choicesOf(scope)]
  // A grant that is not offered here stays unchanged.
  if (!choices.some(([choice]) => choice === first)) choices.push([first, `As written: ${first}${scope}`])
  const title = titleOfScope(scope)
  return html`<div class="vault-scope">
    <label class="check">
      <input type="checkbox" checked=${isChosen} onChange=${() => onChange({ isChosen: !isChosen })} />
      <span>${title !== undefined && `${title} `}<code>${scope}</code></span>
    </label>
    <${Select}
      id=${id} label=${`How the agent may use ${scope}`} isLabelHidden=${true} disabled=${!isChosen}
      options=${choices.map(([value, label]) => ({ value, label }))} value=${before} onChange=${(choice: string) => onChange({ before: choice })}
    />
    ${isChosen && isLoud(lineOf(row)) && html`<${Notice} tone="bad" title="The agent gets the secret itself and can keep it. Choose “Use it in calls” where that is enough." isAlert=${true} />`}
  </div>`
}
