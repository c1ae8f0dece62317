import { html } from '../html.ts'

export interface AmountProps {
  /** Decimal string. */
  readonly value: string
  /** Default: USDC. */
  readonly currency?: string
  readonly isBig?: boolean
}

/** What fits on a line of 360 px in the size of text; no price of an asset with 6 decimals is near it. */
const LONGEST_LINE = 28

/** What fits there at the full size of a page's one big amount. */
const LONGEST_BIG = 13

/** Money: figures of one width, the currency smaller, on one line. Zeros behind the cents are left out. */
export function Amount({ value, currency = 'USDC', isBig = false }: AmountProps) {
  const [whole, fraction = ''] = value.split('.')
  const cents = fraction.replace(/0+$/, '')
  const shown = `${whole!.replace(/\B(?=(\d{3})+$)/g, '\u202f')}${cents && `.${cents.padEnd(2, '0')}`}`
  const classes = [
    'amount',
    isBig && 'big',
    isBig && shown.length > LONGEST_BIG && 'wide',
    shown.length > LONGEST_LINE && 'long',
  ]
  return html`<span class=${classes.filter(Boolean).join(' ')}>${shown} <small>${currency}</small></span>`
}
