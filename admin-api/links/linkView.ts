import { isPaid, type Link, type LinkSuspension } from '../../core/domain/link.ts'
import { exactly, field, isoTime, listOf } from '../http/responses.ts'
import { currency } from './linkBodies.ts'

const suspensionSchema = {
  ...exactly({ since: field.time, reason: field.text(), cooldownUntil: field.time, permanent: field.flag }),
  type: ['object', 'null'],
  description: 'Null unless the link is suspended.',
}

/** The price as the seller has set it. */
export const priceView = {
  type: ['string', 'object'],
  additionalProperties: true,
  description: 'The price in USDC. If the price depends on the request, the object that the seller has sent.',
}

/** Which wallets can call the link by a signature. */
export const accessView = {
  type: ['string', 'object', 'null'],
  additionalProperties: false,
  properties: { paidFor: field.text() },
  description: 'signed-in, or {"paidFor":"24h"}. Null if no wallet can call the link by a signature.',
}

/** Fields of a link whose price depends on the request. */
export const priceRangeFields = {
  priceMin: field.text('The lowest price in USDC. Only if the price depends on the request.'),
  priceMax: field.text('The highest price in USDC. Only if the price depends on the request.'),
}

export const rangeOf = ({ price, priceMax }: Pick<Link, 'price' | 'priceMax'>) =>
  priceMax === null ? {} : { priceMin: price, priceMax }

/** A link as its seller sees it. It never has its upstream headers. */
export const linkFields = {
  id: field.uuid,
  url: field.text(),
  title: field.text(),
  description: field.text(),
  slug: field.text(),
  price: priceView,
  currency: { const: currency },
  isPaid: field.flag,
  isPublic: field.flag,
  isActive: field.flag,
  linkType: { enum: ['api', 'standard'] },
  isStealth: field.flag,
  privateSlug: field.textOrNull('Null unless the link is stealth.'),
  webhookUrl: field.textOrNull(),
  methods: listOf(field.text()),
  inputSchema: { type: ['object', 'null'] },
  outputExample: {},
  tags: listOf(field.text()),
  iconUrl: field.textOrNull(),
  responseMode: { enum: ['wrap', 'raw'] },
  settle: { enum: ['after', 'before'] },
  access: accessView,
  suspension: suspensionSchema,
  createdAt: field.time,
  updatedAt: field.time,
}

export const toLinkView = (link: Link) => ({
  id: link.id,
  url: link.url,
  title: link.title,
  description: link.description,
  slug: link.slug,
  price: link.pricing ?? link.price,
  ...rangeOf(link),
  currency,
  isPaid: isPaid(link),
  isPublic: link.isPublic,
  isActive: link.isActive,
  linkType: link.linkType,
  isStealth: link.isStealth,
  privateSlug: link.privateSlug,
  webhookUrl: link.webhookUrl,
  methods: link.methods,
  inputSchema: link.inputSchema,
  outputExample: link.outputExample,
  tags: link.tags,
  iconUrl: link.iconUrl,
  responseMode: link.responseMode,
  settle: link.settle,
  access: link.access,
  suspension: toSuspensionView(link.suspension),
  createdAt: isoTime(link.createdAtMs),
  updatedAt: isoTime(link.updatedAtMs),
})

const toSuspensionView = (suspension: LinkSuspension | null) =>
  suspension && {
    since: isoTime(suspension.sinceMs),
    reason: suspension.reason,
    cooldownUntil: isoTime(suspension.cooldownUntilMs),
    permanent: suspension.permanent,
  }

/** Part of the response only if the request sets `price.url`. */
export const priceSecretSchema = field.text(
  'The secret that signs the requests to `price.url`, `whsec_…`. Omitted unless the request sets `price.url`.',
)

/** Part of the response only if the request sets a link's first `webhookUrl`. */
export const webhookSecretSchema = field.text(
  'The secret that signs deliveries to the `webhookUrl`, `whsec_…`. Only the first response after a new `webhookUrl` contains the secret.',
)
