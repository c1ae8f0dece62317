import { html } from '../html.ts'
import { CopyButton } from './copyButton.ts'

export interface AddressProps {
  /** A wallet, a token, a transaction. */
  readonly value: string
  /** Of what, for the copy button. Default: address. */
  readonly what?: string
  /** Where a block explorer shows it. */
  readonly href?: string | undefined
  readonly canCopy?: boolean
}

/** `0x1234…abcd` */
export const shortAddress = (value: string): string =>
  value.length <= 14 ? value : `${value.slice(0, 6)}…${value.slice(-4)}`

/** An address, shortened in the middle; whole on hover, and when it is copied. */
export function Address({ value, what = 'address', href, canCopy = true }: AddressProps) {
  const short = html`<span class="mono" title=${value}>${shortAddress(value)}</span>`
  return html`<span class="address">
    ${href === undefined ? short : html`<a href=${href} rel="noreferrer">${short}</a>`}
    ${canCopy && html`<${CopyButton} text=${value} what=${what} />`}
  </span>`
}
