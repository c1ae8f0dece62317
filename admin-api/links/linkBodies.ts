import { descriptionField, fromAnswers, httpUrlField, titleField } from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'

const linkMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** What prices are written in, and nothing else. */
export const currency = 'USDC'

const backendUrl = { type: 'string', minLength: 1, maxLength: 2048 } as const

/** The fields that a link is made of, with the document's sizes. `null` stands for "as if it was left out". */
const properties = {
  url: { ...backendUrl, description: "The seller's API; calls are proxied there." },
  title: titleField,
  description: descriptionField,
  slug: {
    type: 'string',
    pattern: '^[a-z0-9-]{3,64}$',
    'x-hint': '3 to 64 characters of a-z, 0-9 and -',
    description: 'Last part of the address; made from the title when left out.',
  },
  price: {
    type: 'string',
    pattern: '^\\d+(\\.\\d{1,18})?$',
    maxLength: 64,
    'x-hint': 'a decimal string such as "0.10"',
    description: 'USDC for one call; "0", the default, is free.',
  },
  currency: { enum: [currency, null], description: 'What the price is in.' },
  linkType: {
    enum: ['api', 'standard', null],
    description:
      'api, the default: calls go to the url. standard: there is no API; the buyer is led to the url after paying.',
  },
  isPublic: {
    type: ['boolean', 'null'],
    description: 'Listed in the marketplace, unless the link is stealth. Default: false.',
  },
  isStealth: { type: ['boolean', 'null'], description: 'Answers at a secret address only. Default: false.' },
  isActive: {
    enum: [true, null],
    'x-hint': 'true; DELETE /api/v1/links/:id takes a link away',
    description: 'Of answers; a link is taken away with DELETE.',
  },
  webhookUrl: {
    type: ['string', 'null'],
    maxLength: 2048,
    description:
      "Hears of the link's sales: `purchase.confirmed`, signed by Standard Webhooks. Other kinds and more addresses: /api/v1/webhooks.",
  },
  method: { enum: [...linkMethods, null], description: 'Short for a list of one method.' },
  methods: {
    type: ['array', 'null'],
    items: { type: 'string', enum: linkMethods },
    uniqueItems: true,
    maxItems: linkMethods.length,
    description: 'Methods that callers may use; none named means all.',
  },
  inputSchema: {
    type: ['object', 'null'],
    description: 'JSON Schema of the input, for agents; at most 16 kB.',
  },
  outputExample: { description: 'Any JSON that shows an answer; at most 16 kB.' },
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
  iconUrl: httpUrlField,
  responseMode: {
    enum: ['wrap', 'raw', null],
    description:
      'wrap, the default: JSON answers become {data, _svc}. raw: as they come, the ids in headers.',
  },
  settle: {
    enum: ['after', 'before', null],
    description: 'When the buyer is charged: after the answer (default), or before, as streams need.',
  },
  upstreamHeaders: {
    type: ['object', 'null'],
    additionalProperties: { type: 'string', maxLength: 4_096 },
    maxProperties: 20,
    writeOnly: true,
    description:
      "Sent with every call to the seller's API, such as its own key; kept encrypted, never shown. A url of another origin needs them again, or {}.",
  },
  ...fromAnswers('id', 'fullUrl', 'privateSlug', 'privateUrl', 'isPaid'),
  ...fromAnswers('suspension', 'health', 'stats', 'webhookSecret', 'createdAt', 'updatedAt'),
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
