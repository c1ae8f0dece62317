import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Field, Select } from '../components/field.ts'
import { html } from '../html.ts'
import {
  type ConditionFields,
  isNamed,
  newKey,
  type Part,
  type RuleFields,
  repeatedCondition,
  type TableFields,
  tableIn,
  textOf,
} from './priceRules.ts'

/** Maximum number of rules of a table, as in the API. */
const MAX_RULES = 16

const partOptions = [
  { value: 'method', label: 'Method' },
  { value: 'path', label: 'Path' },
  { value: 'query', label: 'Query' },
  { value: 'header', label: 'Header' },
  { value: 'body', label: 'JSON body' },
]

const nameLabels: Readonly<Record<string, string>> = {
  query: 'Parameter',
  header: 'Header name',
  body: 'JSON pointer',
}

const samples: Readonly<Record<Part, string>> = {
  method: 'POST',
  path: '/render/*',
  query: 'large, huge',
  header: 'draft',
  body: 'big',
}

interface PriceTableProps {
  readonly id: string
  /** The price as JSON. */
  readonly value: string
  readonly onInput: (value: string) => void
  /** The error of the API. It begins with the path in the price, such as `price.rules[0].price: …`. */
  readonly error?: string | undefined
}

/**
 * The editor of prices by request. It shows a table as fields, and every other price, such as one of a price server, as JSON. The
 * seller can switch to JSON.
 */
export function PriceTable({ id, value, onInput, error }: PriceTableProps) {
  const [edited, setEdited] = useState({ text: value, table: tableIn(value) })
  const [isJson, setJson] = useState(false)
  // The saved link may have another price than the fields.
  const now = edited.text === value ? edited : { text: value, table: tableIn(value) }
  if (now !== edited) setEdited(now)
  const { table } = now
  const change = (part: Partial<TableFields>) => {
    const next = { ...table!, ...part }
    const text = textOf(next)
    setEdited({ text, table: next })
    onInput(text)
  }
  if (isJson || table === undefined)
    return html`<div class="stack">
      <${Field} id=${id} label="Prices, USDC" value=${value} onInput=${onInput} error=${error} rows=${10} class="input mono" spellcheck=${false} autocapitalize="none" autocomplete="off"
        hint="JSON. The first rule that fits a request decides. otherwise is the price of every other request, or null to refuse it." />
      ${table !== undefined && html`<div><${Button} size="small" onClick=${() => setJson(false)}>Edit as a table<//></div>`}
    </div>`
  const at = placeOf(error)
  const setRule = (index: number, part: Partial<RuleFields>) =>
    change({ rules: table.rules.map((rule, i) => (i === index ? { ...rule, ...part } : rule)) })
  const raise = (index: number) => {
    const rules = [...table.rules]
    rules.splice(index - 1, 0, ...rules.splice(index, 1))
    change({ rules })
  }
  const repeated = repeatedCondition(table)
  return html`<fieldset class="price-table">
    <legend>Prices, USDC</legend>
    <p class="soft small">The first rule that fits a request decides its price. A request fits a rule if it meets every condition.</p>
    ${table.rules.map(
      (rule, i) => html`<${Rule} key=${rule.key} rule=${rule} number=${i + 1}
        error=${at?.rule === i ? at.message : repeated?.rule === i ? 'Two conditions compare the same part of a request. Write their values into one condition.' : undefined}
        onChange=${(part: Partial<RuleFields>) => setRule(i, part)}
        onRaise=${i === 0 ? undefined : () => raise(i)}
        onRemove=${table.rules.length === 1 ? undefined : () => change({ rules: table.rules.filter(({ key }) => key !== rule.key) })} />`,
    )}
    <div class="row">
      ${table.rules.length < MAX_RULES && html`<${Button} size="small" onClick=${() => change({ rules: [...table.rules, newRule()] })}>Add rule<//>`}
      ${repeated === undefined && html`<${Button} size="small" kind="quiet" onClick=${() => setJson(true)}>Edit as JSON<//>`}
    </div>
    <${Select} id=${`${id}-others`} label="Every other request" value=${table.refusesOthers ? 'refused' : 'priced'}
      options=${[{ value: 'priced', label: 'has one price' }, { value: 'refused', label: 'is refused' }]}
      onChange=${(others: string) => change({ refusesOthers: others === 'refused' })} />
    ${
      !table.refusesOthers &&
      html`<${Field} id=${`${id}-otherwise`} label="Price of every other request, USDC" value=${table.otherwise} inputmode="decimal"
        hint="Set your highest price here, and write a rule for each cheaper kind of request." onInput=${(otherwise: string) => change({ otherwise })}
        error=${at?.isOtherwise ? at.message : undefined} />`
    }
    ${at !== undefined && at.rule === undefined && !at.isOtherwise && html`<p class="error" role="alert">${at.message}</p>`}
  </fieldset>`
}

const newRule = (): RuleFields => ({
  key: newKey(),
  conditions: [{ key: newKey(), part: 'path', name: '', values: '' }],
  price: '',
})

interface RuleProps {
  readonly rule: RuleFields
  readonly number: number
  readonly error: string | undefined
  readonly onChange: (part: Partial<RuleFields>) => void
  /** Undefined for the first rule. */
  readonly onRaise: (() => void) | undefined
  /** Undefined for the only rule. */
  readonly onRemove: (() => void) | undefined
}

function Rule({ rule: { key, conditions, price }, number, error, onChange, onRaise, onRemove }: RuleProps) {
  const set = (index: number, part: Partial<ConditionFields>) =>
    onChange({ conditions: conditions.map((one, i) => (i === index ? { ...one, ...part } : one)) })
  const add = () =>
    onChange({ conditions: [...conditions, { key: newKey(), part: 'query', name: '', values: '' }] })
  const of = html`<span class="visually-hidden"> of rule ${number}</span>`
  return html`<fieldset class="price-rule" data-invalid=${error && 'true'}>
    <legend>Rule ${number}</legend>
    ${conditions.map(({ key: its, part, name, values }, i) => {
      const id = `rule-${key}-${its}`
      const where = `condition ${i + 1} of rule ${number}`
      return html`<div class="price-condition" key=${its} role="group" aria-label=${`Condition ${i + 1} of rule ${number}`}>
        <${Select} id=${`${id}-part`} label="If" value=${part} options=${partOptions}
          onChange=${(value: Part) => set(i, { part: value, ...(!isNamed(value) && { name: '' }) })} />
        ${isNamed(part) && html`<${Field} id=${`${id}-name`} label=${nameLabels[part]} value=${name} placeholder=${part === 'body' ? '/model' : ''} autocapitalize="none" spellcheck=${false} onInput=${(value: string) => set(i, { name: value })} />`}
        <${Field} id=${`${id}-values`} label="is one of" value=${values} placeholder=${samples[part]} autocapitalize="none" spellcheck=${false} onInput=${(value: string) => set(i, { values: value })} />
        ${conditions.length > 1 && html`<${Button} size="small" kind="quiet" onClick=${() => onChange({ conditions: conditions.filter((one) => one.key !== its) })}>Remove<span class="visually-hidden"> ${where}</span><//>`}
      </div>`
    })}
    <${Field} id=${`rule-${key}-price`} label="Price, USDC" value=${price} inputmode="decimal" onInput=${(value: string) => onChange({ price: value })} error=${error} />
    <div class="row">
      <${Button} size="small" onClick=${add}>Add condition${of}<//>
      ${onRaise && html`<${Button} size="small" kind="quiet" onClick=${onRaise}>Move up<span class="visually-hidden"> rule ${number}</span><//>`}
      ${onRemove && html`<${Button} size="small" kind="danger" onClick=${onRemove}>Remove rule<span class="visually-hidden"> ${number}</span><//>`}
    </div>
  </fieldset>`
}

/** The rule that an error of the API names, and the rest of the message. */
function placeOf(error: string | undefined) {
  if (error === undefined) return undefined
  const [, rule, otherwise, rest] = /^price\.(?:rules\[(\d+)\]|(otherwise))[^:]*: (.*)$/s.exec(error) ?? []
  return {
    rule: rule === undefined ? undefined : Number(rule),
    isOtherwise: otherwise !== undefined,
    message: rest ?? error,
  }
}
