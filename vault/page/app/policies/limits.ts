import { useEffect, useRef } from 'preact/hooks'
import { Button, Icon } from '../../../../web/components/button.ts'
import { Field, Select } from '../../../../web/components/field.ts'
import { html } from '../../../../web/html.ts'
import type { VaultLimit } from '../../../host/ownerRules.ts'
import { asTyped } from '../elements.ts'
import { chainTitle } from '../words.ts'
import type { Asset } from './budget.ts'

/** A limit of an agent's policy, or a limit across all agents. */
export type Limit = VaultLimit & { readonly autoApproveUpTo?: string }

/** A limit as typed. */
export interface Row {
  readonly key: number
  readonly asset: string
  readonly values: Readonly<Record<string, string>>
  readonly isNew?: boolean
}

const forms = {
  agent: {
    legend: 'Limits for an asset',
    add: 'Add an asset',
    remove: 'Remove this asset',
    fields: {
      autoApproveUpTo: { label: 'Approve without asking up to', placeholder: '0' },
      perTransaction: { label: 'At most per transaction', placeholder: '0' },
      perDay: { label: 'At most per day', placeholder: '0' },
    },
  },
  vault: {
    legend: 'A limit across all agents',
    add: 'Add a limit',
    remove: 'Remove this limit',
    fields: {
      perTransaction: { label: 'At most per transaction', placeholder: 'No limit' },
      perDay: { label: 'At most per day', placeholder: 'No limit' },
      recipient: { label: 'Only to', placeholder: 'Any recipient' },
    },
  },
} as const

let lastKey = 0
const emptyRow = (): Row => ({ key: ++lastKey, asset: 'base USDC', values: {} })

/** The rows of a form. Without a limit, it has one empty row. */
export const rowsOf = (limits: readonly Limit[]): readonly Row[] =>
  limits.length === 0
    ? [emptyRow()]
    : limits.map(({ chain, symbol, ...values }) => ({
        ...emptyRow(),
        asset: `${chain} ${symbol}`,
        // Amounts may be numbers in JSON that the owner typed.
        values: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)])),
      }))

/** The limits of a form, without empty rows. An omitted agent limit is zero. An omitted vault limit means no limit. */
export function limitsOf(rows: readonly Row[], of: keyof typeof forms): readonly Limit[] {
  return rows.flatMap(({ asset, values }) => {
    const [chain = '', symbol = ''] = asset.split(' ')
    const typed = Object.keys(forms[of].fields).map((name) => [name, values[name]?.trim() ?? ''] as const)
    const given = typed.filter(([, text]) => text !== '')
    if (given.length === 0) return []
    const all = of === 'vault' ? given : typed.map(([name, text]) => [name, text || '0'] as const)
    return [{ chain, symbol, ...Object.fromEntries(all) }]
  })
}

interface LimitsProps {
  readonly of: keyof typeof forms
  readonly rows: readonly Row[]
  readonly assets: readonly Asset[]
  readonly onChange: (rows: readonly Row[]) => void
}

/** Limits, as rows of a form. */
export function Limits({ of, rows, assets, onChange }: LimitsProps) {
  const change = (row: Row) => onChange(rows.map((one) => (one.key === row.key ? row : one)))
  const draw = (row: Row) => html`<${LimitRow}
    key=${row.key} of=${of} row=${row} assets=${assets} onChange=${change}
    onRemove=${() => onChange(rows.filter(({ key }) => key !== row.key))}
  />`
  return html`${rows.map(draw)}
    <div><${Button} size="small" onClick=${() => onChange([...rows, { ...emptyRow(), isNew: true }])}><${Icon} name="plus" />${forms[of].add}<//></div>`
}

interface LimitRowProps extends Pick<LimitsProps, 'of' | 'assets'> {
  readonly row: Row
  readonly onChange: (row: Row) => void
  readonly onRemove: () => void
}

function LimitRow({ of, row, assets, onChange, onRemove }: LimitRowProps) {
  const { legend, remove, fields } = forms[of]
  const element = useRef<HTMLElement>(null)
  useEffect(() => {
    if (row.isNew) element.current?.querySelector('select')?.focus()
  }, [])
  const options = assets.map(({ chain, symbol }) => ({
    value: `${chain} ${symbol}`,
    label: `${symbol} on ${chainTitle(chain)}`,
  }))
  // An asset that is no longer offered stays unchanged.
  if (!options.some(({ value }) => value === row.asset)) options.push({ value: row.asset, label: row.asset })
  return html`<fieldset class="vault-limit" ref=${element}>
    <legend class="visually-hidden">${legend}</legend>
    <${Select} id=${`asset-${row.key}`} label="Asset" options=${options} value=${row.asset} onChange=${(asset: string) => onChange({ ...row, asset })} />
    ${Object.entries(fields).map(
      ([name, more]) => html`<${Field}
        id=${`${name}-${row.key}`} inputmode=${name === 'recipient' ? undefined : 'decimal'} value=${row.values[name] ?? ''} ...${more} ...${asTyped}
        onInput=${(value: string) => onChange({ ...row, values: { ...row.values, [name]: value } })}
      />`,
    )}
    <${Button} size="small" kind="quiet" aria-label=${remove} onClick=${onRemove}>Remove<//>
  </fieldset>`
}
