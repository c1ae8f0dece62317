import type { FastifyInstance } from 'fastify'
import { type Social, type SocialType, socialTypes } from '../../core/domain/store.ts'
import type { ErrorDetail } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { exactly, field, listOf, ok, respond, success } from '../http/responses.ts'
import { validationError } from '../http/validation.ts'
import { changeStore } from './profileChanges.ts'

/** A social link as its seller sees it. */
export const ownSocials = listOf(
  exactly({
    type: { enum: socialTypes },
    url: field.text(),
    displayOrder: { type: 'integer' },
    isVisible: field.flag,
  }),
)
/** The public fields of a social link. */
export const publicSocials = listOf(exactly({ type: { enum: socialTypes }, url: field.text() }))

export const toPublicSocials = (socials: readonly Social[]) =>
  socials.filter(({ isVisible }) => isVisible).map(({ type, url }) => ({ type, url }))

const MAX_SOCIALS = 10

const body = {
  type: 'object',
  additionalProperties: false,
  required: ['socials'],
  properties: {
    socials: {
      type: 'array',
      maxItems: MAX_SOCIALS,
      description:
        'The complete list of social links. Links that are not in the list are removed. Links with the same displayOrder stay in the order of the list.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['type', 'url'],
        properties: {
          type: { type: 'string', enum: socialTypes },
          url: {
            type: 'string',
            maxLength: 500,
            pattern: '^https://[^\\s<>"\'\\\\]+$',
            'x-hint': 'a URL that begins with https://',
            'x-lines': 'one',
          },
          displayOrder: { type: 'integer', minimum: 0, maximum: 1_000 },
          isVisible: { type: 'boolean' },
        },
      },
    },
  },
} as const

/** The hosts of each type's pages. A website can have any host. */
const hosts: Readonly<Record<Exclude<SocialType, 'website'>, readonly string[]>> = {
  x: ['x.com', 'twitter.com'],
  github: ['github.com'],
  telegram: ['t.me', 'telegram.me'],
  web3_bio: ['web3.bio'],
  youtube: ['youtube.com', 'youtu.be'],
  linkedin: ['linkedin.com'],
  discord: ['discord.gg', 'discord.com'],
  facebook: ['facebook.com', 'fb.com'],
  tiktok: ['tiktok.com'],
  instagram: ['instagram.com'],
}

/** `POST /api/v1/socials` sets the social links of the caller's store. */
export function socialsRoute(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof body> }>(
    '/api/v1/socials',
    {
      schema: {
        summary: 'Set the social links',
        description: `Replaces the social links of the store, at most ${MAX_SOCIALS}. The host of each URL must belong to its type. The service does not fetch the URLs.`,
        body,
        response: respond({ 200: success(exactly({ socials: ownSocials })) }, [400, 401, 429]),
      },
    },
    async (request) => {
      const socials = readSocials(request.body.socials)
      const store = await changeStore(api, callerOf(request).store, { socials })
      return ok({ socials: store.socials })
    },
  )
}

/** @throws `VALIDATION_ERROR` with each URL that does not match its type */
function readSocials(sent: Infer<typeof body>['socials']): Social[] {
  const faults: ErrorDetail[] = []
  const read = sent.map(({ type, url, displayOrder, isVisible }, i): Social => {
    const message = faultOf(type, url)
    if (message !== undefined) faults.push({ path: `socials[${i}].url`, code: 'wrong_site', message })
    else url = new URL(url).href
    return { type, url, displayOrder: displayOrder ?? i, isVisible: isVisible ?? true }
  })
  if (faults.length > 0) throw validationError(faults)
  return read.sort((a, b) => a.displayOrder - b.displayOrder)
}

function faultOf(type: SocialType, text: string): string | undefined {
  if (!/^https?:\/\/[^/?#]/i.test(text) || !URL.canParse(text))
    return 'Expected a full URL, such as https://example.com/me.'
  const { hostname, username, password, port, pathname, search } = new URL(text)
  if (username !== '' || password !== '' || port !== '') return 'Expected a URL without a user and a port.'
  if (type === 'website') {
    return /\.[a-z][a-z0-9-]*$/.test(hostname) ? undefined : 'Expected the address of a public website.'
  }
  const isThere = hosts[type].some((host) => hostname === host || hostname.endsWith(`.${host}`))
  if (!isThere)
    return `Expected a page at ${hosts[type].join(' or ')}, got ${JSON.stringify(hostname.slice(0, 60))}.`
  return pathname === '/' && search === ''
    ? `Expected your own page at ${hostname}, not its home page.`
    : undefined
}
