import { paidForForm } from '../../core/domain/access.ts'
import { bodyField, fromResponses, type Infer } from '../http/fields.ts'
import { priceField } from './priceField.ts'

const linkMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** The only currency of prices. */
export const currency = 'USDC'

const backendUrl = { type: 'string', minLength: 1, maxLength: 2048 } as const

/** The fields of a link, with the sizes of the marketplace interface. `null` means the same as an absent field. */
const properties = {
  url: { ...backendUrl, description: "The URL of the seller's API, to which the gateway forwards calls." },
  title: bodyField.title,
  description: bodyField.description,
  slug: {
    type: 'string',
    pattern: '^[a-z0-9-]{3,64}$',
    'x-hint': '3 to 64 characters of a-z, 0-9 and -',
    description: "The last part of the link's address. Default: made from the title.",
  },
  price: priceField,
  currency: { enum: [currency, null], description: 'The currency of the price.' },
  linkType: {
    enum: ['api', 'standard', null],
    description:
      'With api (the default), the gateway forwards calls to the url. With standard, the gateway calls no API and redirects the buyer to the url after the payment.',
  },
  isPublic: {
    type: ['boolean', 'null'],
    description: 'Whether the marketplace lists the link. A stealth link is never listed. Default: false.',
  },
  isStealth: {
    type: ['boolean', 'null'],
    description: 'Whether buyers can call the link only at a secret address. Default: false.',
  },
  isActive: {
    enum: [true, null],
    'x-hint': 'true; delete a link with DELETE /api/v1/links/:id',
    description: 'Only in responses. To delete a link, use DELETE.',
  },
  webhookUrl: {
    type: ['string', 'null'],
    maxLength: 2048,
    description:
      'The URL to which the gateway sends `purchase.confirmed` for sales of the link, signed by Standard Webhooks. For other events and more endpoints, use /api/v1/webhooks.',
  },
  method: { enum: [...linkMethods, null], description: 'Short for a list `methods` with one entry.' },
  methods: {
    type: ['array', 'null'],
    items: { type: 'string', enum: linkMethods },
    uniqueItems: true,
    maxItems: linkMethods.length,
    description: 'The HTTP methods that callers may use. Default: all.',
  },
  inputSchema: {
    type: ['object', 'null'],
    description: 'A JSON Schema of the input, which agents read before a call. At most 16 kB.',
  },
  outputExample: { description: 'An example of a response, as any JSON of at most 16 kB.' },
  tags: {
    type: ['array', 'null'],
    items: {
      type: 'string',
      pattern: '^[a-z0-9][a-z0-9-]{0,31}$',
      'x-hint': 'up to 32 characters of a-z, 0-9 and -',
    },
    uniqueItems: true,
    maxItems: 10,
  },
  iconUrl: bodyField.httpUrl,
  responseMode: {
    enum: ['wrap', 'raw', null],
    description:
      'With wrap (the default), JSON responses become {data, _svc}. With raw, responses are unchanged, and the purchase id is in a header.',
  },
  settle: {
    enum: ['after', 'before', null],
    description:
      'When the gateway charges the buyer. after (the default) means after the response of the API. before means before the call, which streams need.',
  },
  access: {
    type: ['string', 'object', 'null'],
    pattern: '^signed-in$',
    'x-hint': 'signed-in, or an object such as {"paidFor":"24h"}',
    additionalProperties: false,
    required: ['paidFor'],
    properties: {
      paidFor: {
        type: 'string',
        pattern: paidForForm.source,
        'x-hint': 'a number of minutes, hours or days, such as 30m, 24h or 7d',
        description: 'How long a purchase gives its wallet access to the link without another payment.',
      },
    },
    description:
      'Whether wallets can call the link by a signature instead of a payment (x402 extension sign-in-with-x). With {"paidFor":"24h"}, a wallet that has paid for the link can call the link again for that time. With signed-in, the link is free for every wallet that signs in. Default: null, which means that no wallet can.',
  },
  upstreamHeaders: {
    type: ['object', 'null'],
    additionalProperties: { type: 'string', maxLength: 4_096 },
    maxProperties: 20,
    writeOnly: true,
    description:
      "Headers that the gateway sends with every call to the seller's API, such as an API key. The gateway stores the headers encrypted and never shows them. If the url changes to another origin, send the headers again, or {} to remove them.",
  },
  ...fromResponses('id', 'priceMin', 'priceMax', 'fullUrl', 'privateSlug', 'privateUrl', 'isPaid'),
  ...fromResponses('suspension', 'health', 'stats', 'priceSecret', 'webhookSecret', 'createdAt', 'updatedAt'),
} as const

export const createLinkBody = {
  type: 'object',
  additionalProperties: false,
  required: ['url', 'title'],
  properties: { ...properties, slug: { ...properties.slug, type: ['string', 'null'] } },
} as const

export const updateLinkBody = { type: 'object', additionalProperties: false, properties } as const

export type CreateLinkBody = Infer<typeof createLinkBody>
export type UpdateLinkBody = Infer<typeof updateLinkBody>
