/** One entry of an offer: where it is paid, what, to whom, and what the chain needs beside. */
export interface OfferEntry {
  readonly network: string
  readonly amount: string
  readonly asset: string
  readonly payTo: string
  readonly extra: object
}

/** The honest offer for an address; parts of its entry and of the whole can be replaced. */
export const honestOffer = (
  url: string,
  own: OfferEntry,
  entry: object = {},
  rest: object = {},
): Record<string, unknown> => ({
  x402Version: 2,
  error: 'payment_required',
  resource: { url, description: 'Says hello', mimeType: 'application/json' },
  accepts: [{ scheme: 'exact', maxTimeoutSeconds: 300, ...own, ...entry }],
  ...rest,
})
