/**
 * Which wallets may call a link without a payment of this call. A wallet proves by a signature that it is the caller (x402 extension
 * `sign-in-with-x`).
 *
 * - `signed-in`: every wallet. The link is free.
 * - `paidFor`: wallets that have paid for the link within this time, such as `24h`. Other callers pay the price.
 */
export type Access = 'signed-in' | { readonly paidFor: string }

/** The form of a `paidFor`: a whole number of minutes, hours or days. */
export const paidForForm = /^([1-9]\d{0,3})(m|h|d)$/

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** How long a purchase gives access, in ms. @throws {RangeError} for a text without the form {@link paidForForm} */
export function paidForMs(paidFor: string): number {
  const [, count, unit] = paidForForm.exec(paidFor) ?? []
  if (count === undefined) throw new RangeError(`Expected a time such as 30m, 24h or 7d, got ${paidFor}.`)
  return Number(count) * unitMs[unit as keyof typeof unitMs]
}
