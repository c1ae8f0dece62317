import { chainNameOf, type NetworkId, networkTitle } from '../../core/domain/network.ts'
import { html } from '../html.ts'
import { CopyButton } from './button.ts'

export interface AmountProps {
  /** Amount as a decimal string. */
  readonly value: string
  /** Default: USDC. */
  readonly currency?: string
  readonly isBig?: boolean
  /** The highest of several amounts. `value` is the lowest amount, or equal to `upTo` if the lowest amount is not known. */
  readonly upTo?: string | null | undefined
}

/**
 * Number of characters that fit on one line at 360 px in text size. A realistic price of a token with 6 decimals is shorter.
 */
const LONGEST_LINE = 28

/** Number of characters that fit at 360 px in the size of a page's main amount. */
const LONGEST_BIG = 13

/** An amount on one line, with tabular figures and a smaller currency. Trailing zeros after the second decimal are dropped. */
export function Amount({ value, currency = 'USDC', isBig = false, upTo }: AmountProps) {
  const bound = upTo === undefined || upTo === null ? '' : upTo === value ? 'up to' : 'from'
  const shown = shownAmount(value)
  const classes = [
    'amount',
    isBig && 'big',
    isBig && shown.length > LONGEST_BIG && 'wide',
    shown.length > LONGEST_LINE && 'long',
  ]
  const title = bound === 'from' ? `from ${shown} to ${shownAmount(upTo!)} ${currency}` : undefined
  return html`<span class=${classes.filter(Boolean).join(' ')} title=${title}>${bound !== '' && html`<small class="bound">${bound}</small> `}${shown} <small>${currency}</small></span>`
}

function shownAmount(value: string): string {
  const [whole, fraction = ''] = value.split('.')
  const cents = fraction.replace(/0+$/, '')
  return `${whole!.replace(/\B(?=(\d{3})+$)/g, '\u202f')}${cents && `.${cents.padEnd(2, '0')}`}`
}

export interface AddressProps {
  /** Address of a wallet or token, or a transaction id. */
  readonly value: string
  /** Name of what is copied, for the copy button. Default: address. */
  readonly what?: string
  /** URL in a block explorer. */
  readonly href?: string | undefined
  readonly canCopy?: boolean
}

/** `0x1234…abcd` */
export const shortAddress = (value: string): string =>
  value.length <= 14 ? value : `${value.slice(0, 6)}…${value.slice(-4)}`

/** An address, shortened in the middle. Hover shows the whole address, and the button copies it. */
export function Address({ value, what = 'address', href, canCopy = true }: AddressProps) {
  const short = html`<span class="mono" title=${value}>${shortAddress(value)}</span>`
  return html`<span class="address">
    ${href === undefined ? short : html`<a href=${href} rel="noreferrer">${short}</a>`}
    ${canCopy && html`<${CopyButton} text=${value} what=${what} />`}
  </span>`
}

/** A network's name. If it has none, its CAIP-2 id. */
export const NetworkBadge = ({ network }: { readonly network: string }) =>
  html`<span class="badge network" data-chain=${chainNameOf(network as NetworkId)}
    >${networkTitle(network)}</span
  >`
