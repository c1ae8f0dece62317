import { chainNameOf, v1NameOf } from '../domain/network.ts'
import type { Reply } from '../plugin/reply.ts'
import { encodeHeader } from './header.ts'
import type { Offer, Priced } from './offers.ts'
import type { PaymentRequired, ResourceInfo } from './types.ts'

export interface Challenges {
  /** The 402 of x402 v2: the same JSON in the header and in the body. */
  readonly v2: Reply
  /** The 402 in the form of x402 v1, for callers that ask for it. */
  readonly v1: Reply
  /** The 402 after a payment that did not go through, with its x402 reason. */
  because(version: 1 | 2, reason: string, receipt: readonly string[]): Reply
  /** While it is found out what can be paid: the answers are worth waiting for. */
  readonly looking?: Promise<unknown> | undefined
}

/** Makes the 402 answers of what is sold: serialised once per link version, sent as they are. */
export function createChallenges(
  sold: Pick<Priced, 'price'>,
  offers: readonly Offer[],
  resource: ResourceInfo,
  extensions: PaymentRequired['extensions'],
  legacyBody: boolean,
): Challenges {
  const v2 = (error: string): PaymentRequired => ({
    x402Version: 2,
    error,
    resource,
    accepts: offers.map((o) => o.terms),
    ...(extensions && { extensions }),
  })
  const bodyOf = (offer: PaymentRequired) => (legacyBody ? legacyForm(sold, offers) : offer)
  const make = (version: 1 | 2, error: string, receipt: readonly string[]): Reply => {
    if (version === 1) return reply402(v1Form(error, offers, resource), receipt)
    const offer = v2(error)
    return reply402(bodyOf(offer), ['PAYMENT-REQUIRED', encodeHeader(offer), ...receipt])
  }
  return { v2: make(2, 'payment_required', []), v1: make(1, 'payment_required', []), because: make }
}

function reply402(body: unknown, headers: readonly string[]): Reply {
  const bytes = Buffer.from(JSON.stringify(body))
  return {
    status: 402,
    headers: [
      'Content-Type',
      'application/json; charset=utf-8',
      'Content-Length',
      String(bytes.length),
      'Cache-Control',
      'no-store',
      ...headers,
    ],
    // latin1 keeps the bytes: node writes head and body in one piece (bench/challenge.ts).
    body: bytes.toString('latin1'),
  }
}

/** x402 v1, section 5.1: entries with their own resource, networks by name. Networks without a v1 name are left out. */
function v1Form(error: string, offers: readonly Offer[], resource: ResourceInfo): unknown {
  const accepts = offers.flatMap(({ terms }) => {
    const network = v1NameOf(terms.network)
    if (network === undefined) return []
    const { scheme, payTo, asset, maxTimeoutSeconds, extra } = terms
    return [
      {
        scheme,
        network,
        maxAmountRequired: terms.amount,
        resource: resource.url,
        description: resource.description,
        mimeType: resource.mimeType,
        payTo,
        maxTimeoutSeconds,
        asset,
        extra,
      },
    ]
  })
  return { x402Version: 1, error, accepts }
}

/** The form that the marketplace interface calls earlier: one way to pay, amounts in whole USDC. */
function legacyForm({ price }: Pick<Priced, 'price'>, offers: readonly Offer[]): unknown {
  const first = offers[0]
  return {
    error: 'payment_required',
    payment: first && {
      amount: price,
      currency: first.asset.symbol,
      recipient: first.terms.payTo,
      chain: chainNameOf(first.terms.network),
    },
  }
}
