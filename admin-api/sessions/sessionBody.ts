import type { Link } from '../../core/domain/link.ts'
import { isPaid } from '../../core/domain/link.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import type { Session } from '../../core/domain/session.ts'
import { type ErrorDetail, isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { isUuid } from '../http/ids.ts'
import { currency } from '../links/linkBodies.ts'
import { descriptionField, fromAnswers, givenUrlField, titleField } from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'
import { validationError } from '../schema/validationError.ts'

/** Bytes of metadata, as JSON. */
const MAX_METADATA_BYTES = 4_096
/** USDC's, on every network. */
const assetDecimals = 6
/** A trillion and more is a slip of the keyboard, and would not fit a token amount on Solana (64 bits). */
const MAX_WHOLE_DIGITS = 12

const pageUrl = { ...givenUrlField, description: 'Where the buyer is led; http or https.' } as const

/** The fields of the marketplace interface, section 4. `null` stands for "as if it was left out". */
export const sessionBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    amount: {
      type: ['string', 'number', 'null'],
      'x-hint': 'a decimal such as "49.99"',
      description: 'USDC; needed unless linkId is there. At most 6 decimals, more than 0.',
    },
    title: { ...titleField, type: ['string', 'null'], description: 'Shown at checkout; needed with amount.' },
    description: descriptionField,
    linkId: {
      type: ['string', 'null'],
      maxLength: 64,
      description: 'A paid link of the store: its price counts, whatever amount says.',
    },
    currency: { enum: [currency, null], description: 'What the amount is in.' },
    successUrl: { ...pageUrl, description: 'Where the buyer is led after paying; http or https.' },
    cancelUrl: { ...pageUrl, description: 'Where the buyer is led after canceling; http or https.' },
    allowedOrigin: {
      ...givenUrlField,
      'x-hint': 'an origin such as https://shop.example',
      description:
        'The origin whose pages may read the session and hear of its end, such as https://shop.example.',
    },
    clientReferenceId: {
      type: ['string', 'null'],
      maxLength: 200,
      description: "The seller's own name for it, such as an order number.",
    },
    metadata: {
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'number', 'boolean', 'null'] },
      description: 'Free data, flat, at most 4 kB; only the seller sees it.',
    },
    ...fromAnswers('id', 'status', 'clientSecret', 'checkoutUrl', 'expiresAt', 'item', 'merchant'),
  },
} as const

export type SessionBody = Infer<typeof sessionBody>

/** What is fixed of a session by what was sent. */
export type SessionFields = Pick<
  Session,
  | 'linkId'
  | 'price'
  | 'title'
  | 'description'
  | 'successUrl'
  | 'cancelUrl'
  | 'allowedOrigin'
  | 'clientReferenceId'
  | 'metadata'
>

/**
 * Reads what was sent of a session, beyond what the schema checked.
 *
 * @throws `VALIDATION_ERROR` that names every field that is wrong; `LINK_NOT_FOUND`, `CONFLICT` for a link that is not there
 */
export async function readSession(
  api: Pick<Api, 'links'>,
  storeId: string,
  body: SessionBody,
): Promise<SessionFields> {
  const problems: ErrorDetail[] = []
  const link = body.linkId == null ? undefined : await linkOf(api, storeId, body.linkId)
  const price = link === undefined ? readAmount(body.amount, problems) : link.price
  const title = body.title ?? link?.title
  if (title === undefined)
    problems.push({ path: 'title', code: 'required', message: 'A session without a link needs a title.' })
  const bytes = Buffer.byteLength(JSON.stringify(body.metadata ?? {}))
  if (bytes > MAX_METADATA_BYTES) {
    const message = `At most ${MAX_METADATA_BYTES} bytes of JSON are allowed, got ${bytes}.`
    problems.push({ path: 'metadata', code: 'too_long', message })
  }
  const fields = {
    linkId: link?.id ?? null,
    price,
    title: title ?? '',
    description: body.description ?? link?.description ?? '',
    successUrl: readPage('successUrl', body.successUrl, problems),
    cancelUrl: readPage('cancelUrl', body.cancelUrl, problems),
    allowedOrigin: readOrigin(body.allowedOrigin, problems),
    clientReferenceId: body.clientReferenceId || null,
    metadata: (body.metadata ?? {}) as SessionFields['metadata'],
  }
  if (problems.length > 0) throw validationError(problems)
  return fields
}

async function linkOf({ links }: Pick<Api, 'links'>, storeId: string, id: string): Promise<Link> {
  const wrong = (code: string, message: string) => validationError([{ path: 'linkId', code, message }])
  if (!isUuid(id)) throw wrong('format', 'Expected the id of a link, a UUID.')
  const link = await links.find(id.toLowerCase())
  if (link === undefined || link.storeId !== storeId)
    throw new TollgateError('LINK_NOT_FOUND', 'Your store has no link with this id.')
  if (!link.isActive) throw new TollgateError('CONFLICT', 'This link was deleted; name another one.')
  if (link.suspension !== null)
    throw new TollgateError(
      'CONFLICT',
      'This link is paused, because its API does not answer: re-enable it first.',
    )
  if (!isPaid(link)) throw wrong('free', 'Expected a paid link; this one is free, and nothing is to be paid.')
  return link
}

function readAmount(given: string | number | null | undefined, problems: ErrorDetail[]): string {
  const refuse = (code: string, message: string) => {
    problems.push({ path: 'amount', code, message })
    return '0'
  }
  if (given == null) return refuse('required', 'Either amount or linkId is needed.')
  const text = String(given)
  if (!/^\d{1,40}(\.\d{1,18})?$/.test(text))
    return refuse('format', `Expected a decimal such as "49.99", got ${JSON.stringify(text.slice(0, 40))}.`)
  const [whole = '', fraction = ''] = text.replace(/^0+(?=\d)/, '').split('.')
  if (whole.length > MAX_WHOLE_DIGITS) return refuse('range', 'Amounts stay below 1,000,000,000,000 USDC.')
  try {
    const atomic = parseAmount(fraction === '' ? whole : `${whole}.${fraction}`, assetDecimals)
    if (atomic === 0n) return refuse('range', 'Expected an amount above 0: there is nothing to pay.')
    return formatAmount(atomic, assetDecimals, 2)
  } catch (error) {
    if (!isTollgateError(error)) throw error
    const places = fraction.replace(/0+$/, '').length
    return refuse('too_many_decimals', `USDC has ${assetDecimals} decimals; this amount has ${places}.`)
  }
}

function readPage(path: string, given: string | null | undefined, problems: ErrorDetail[]): string | null {
  if (given == null) return null
  const url = URL.parse(given)
  // A page that opens with somebody's name and password in its address is a trick more often than not.
  if (url !== null && url.username === '' && url.password === '') return given
  problems.push({
    path,
    code: 'url',
    message: 'Expected a URL with a host and without user and password, such as https://shop.example/thanks.',
  })
  return null
}

function readOrigin(given: string | null | undefined, problems: ErrorDetail[]): string | null {
  if (given == null) return null
  const url = URL.parse(given)
  if (url !== null && !url.host.includes('*') && (given === url.origin || given === `${url.origin}/`))
    return url.origin
  const meant = url === null ? 'https://shop.example' : url.origin
  const message = `Expected an origin, that is scheme, host and port only, such as ${meant}.`
  problems.push({ path: 'allowedOrigin', code: 'origin', message })
  return null
}
