import { isPaid, type Link, type LinkSuspension } from '../../core/domain/link.ts'
import { isoTime } from '../http/envelope.ts'
import { exactly, flag, listOf, text, textOrNull, time, uuid } from '../schema/answers.ts'
import { currency } from './linkBodies.ts'

const suspensionSchema = {
  ...exactly({ since: time, reason: text(), cooldownUntil: time, permanent: flag }),
  type: ['object', 'null'],
  description: 'Null while calls are served.',
}

/** A link as its seller sees it. Upstream headers are never among it. */
export const linkFields = {
  id: uuid,
  url: text(),
  title: text(),
  description: text(),
  slug: text(),
  price: text('USDC.'),
  currency: { const: currency },
  isPaid: flag,
  isPublic: flag,
  isActive: flag,
  linkType: { enum: ['api', 'standard'] },
  isStealth: flag,
  privateSlug: textOrNull('Of stealth links.'),
  webhookUrl: textOrNull(),
  methods: listOf(text()),
  inputSchema: { type: ['object', 'null'] },
  outputExample: {},
  tags: listOf(text()),
  iconUrl: textOrNull(),
  responseMode: { enum: ['wrap', 'raw'] },
  settle: { enum: ['after', 'before'] },
  suspension: suspensionSchema,
  createdAt: time,
  updatedAt: time,
}

export const toLinkView = (link: Link) => ({
  id: link.id,
  url: link.url,
  title: link.title,
  description: link.description,
  slug: link.slug,
  price: link.price,
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

const created = exactly({
  id: uuid,
  slug: text(),
  fullUrl: text('The address that callers use.'),
  privateSlug: textOrNull('Of stealth links.'),
  privateUrl: textOrNull('Of stealth links: the only address that answers.'),
  price: text(),
  currency: { const: currency },
  linkType: { enum: ['api', 'standard'] },
  createdAt: time,
})

/** Of the answer that a link's `webhookUrl` begins with, and of no other. */
export const webhookSecretSchema = text(
  '`whsec_…`, shown once: what is sent to the `webhookUrl` is signed with it. Left out when there is none, or it was shown before.',
)

/** What creating a link answers (marketplace interface, section 2). */
export const createdLinkSchema = {
  ...created,
  properties: {
    ...created.properties,
    warnings: listOf(
      text('Why some buyers can not pay yet, and what to do. Left out when there is nothing to say.'),
    ),
    webhookSecret: webhookSecretSchema,
  },
}

export function toCreatedLink(
  link: Link,
  publicUrl: string,
  username: string,
  { warnings, webhookSecret }: { readonly warnings: readonly string[]; readonly webhookSecret?: string },
) {
  const at = (slug: string) => `${publicUrl}/api/link/${username}/${slug}`
  return {
    id: link.id,
    slug: link.slug,
    fullUrl: at(link.privateSlug ?? link.slug),
    privateSlug: link.privateSlug,
    privateUrl: link.privateSlug === null ? null : at(link.privateSlug),
    price: link.price,
    currency,
    linkType: link.linkType,
    createdAt: isoTime(link.createdAtMs),
    ...(warnings.length > 0 && { warnings }),
    ...(webhookSecret !== undefined && { webhookSecret }),
  }
}
