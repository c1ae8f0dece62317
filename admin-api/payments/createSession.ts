import { createHash, hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import { isPaid, type Link } from '../../core/domain/link.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import { SESSION_LIFETIME_MS, type Session } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { type ErrorDetail, isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { bodyField, fromResponses, type Infer } from '../http/fields.ts'
import { isUuid } from '../http/ownership.ts'
import { validationError } from '../http/validation.ts'
import { currency } from '../links/linkBodies.ts'
import { refuseUnpayable } from '../links/saveLink.ts'

/** Maximum size of metadata as JSON, in bytes. */
const MAX_METADATA_BYTES = 4_096
/** Decimals of USDC, on every network. */
const assetDecimals = 6
/**
 * Maximum number of digits before the decimal point of an amount. An amount of a trillion or more is a typing error, and would not
 * fit into a token amount on Solana (64 bits).
 */
const MAX_WHOLE_DIGITS = 12

const pageUrl = {
  ...bodyField.givenUrl,
  description: 'The http or https URL to which the checkout redirects the buyer.',
} as const

/** The fields of the marketplace interface, section 4. `null` means the same as leaving a field out. */
export const sessionBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    amount: {
      type: ['string', 'number', 'null'],
      'x-hint': 'a decimal such as "49.99"',
      description:
        'The amount in USDC, above 0 and with at most 6 decimals. Required if the request has no linkId.',
    },
    title: {
      ...bodyField.title,
      type: ['string', 'null'],
      description: 'The title that the checkout shows. Required with amount.',
    },
    description: bodyField.description,
    linkId: {
      type: ['string', 'null'],
      maxLength: 64,
      description:
        'The id of a paid link of the store. The price of the link is the amount, and the field amount is ignored.',
    },
    currency: { enum: [currency, null], description: 'The currency of the amount.' },
    successUrl: {
      ...pageUrl,
      description: 'The http or https URL to which the checkout redirects the buyer after the payment.',
    },
    cancelUrl: {
      ...pageUrl,
      description: 'The http or https URL to which the checkout redirects the buyer who cancels.',
    },
    allowedOrigin: {
      ...bodyField.givenUrl,
      'x-hint': 'an origin such as https://shop.example',
      description:
        'The origin of your shop, such as https://shop.example. Only pages of this origin can read the payment session and its outcome in the browser.',
    },
    clientReferenceId: {
      type: ['string', 'null'],
      maxLength: 200,
      description: 'Your own reference, such as an order number.',
    },
    metadata: {
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'number', 'boolean', 'null'] },
      description: 'Your own data, as a flat object of at most 4 kB. Buyers do not see this data.',
    },
    ...fromResponses('id', 'status', 'clientSecret', 'checkoutUrl', 'expiresAt', 'item', 'merchant'),
  },
} as const

export type SessionBody = Infer<typeof sessionBody>

/** The fields of a session that come from the request. */
type SessionFields = Pick<
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
 * Checks the sent fields of a session beyond the schema.
 *
 * @throws `VALIDATION_ERROR` with every invalid field; `LINK_NOT_FOUND`, `CONFLICT` for a link that does not exist or was deleted
 */
async function readSession(
  api: Pick<Api, 'links'>,
  storeId: string,
  body: SessionBody,
): Promise<SessionFields> {
  const problems: ErrorDetail[] = []
  const link = body.linkId == null ? undefined : await linkOf(api, storeId, body.linkId)
  const price = link === undefined ? readAmount(body.amount, problems) : link.price
  const title = body.title ?? link?.title
  if (title === undefined)
    problems.push({
      path: 'title',
      code: 'required',
      message: 'Expected a title, because the payment session has no link.',
    })
  const bytes = Buffer.byteLength(JSON.stringify(body.metadata ?? {}))
  if (bytes > MAX_METADATA_BYTES) {
    const message = `Expected at most ${MAX_METADATA_BYTES} bytes of JSON, got ${bytes}.`
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
  if (!link.isActive) throw new TollgateError('CONFLICT', 'This link was deleted. Use another link.')
  if (link.suspension !== null)
    throw new TollgateError(
      'CONFLICT',
      'This link is suspended, because its API fails health checks. Re-enable it first.',
    )
  if (!isPaid(link)) throw wrong('free', 'Expected a paid link, but this link is free.')
  if (link.pricing !== null)
    throw wrong(
      'priced_by_request',
      'The price of this link depends on the request, so a payment session cannot sell it. Send amount and title instead of linkId.',
    )
  return link
}

function readAmount(given: string | number | null | undefined, problems: ErrorDetail[]): string {
  const refuse = (code: string, message: string) => {
    problems.push({ path: 'amount', code, message })
    return '0'
  }
  if (given == null) return refuse('required', 'Expected amount or linkId.')
  const text = String(given)
  if (!/^\d{1,40}(\.\d{1,18})?$/.test(text))
    return refuse('format', `Expected a decimal such as "49.99", got ${JSON.stringify(text.slice(0, 40))}.`)
  const [whole = '', fraction = ''] = text.replace(/^0+(?=\d)/, '').split('.')
  if (whole.length > MAX_WHOLE_DIGITS)
    return refuse('range', 'Expected an amount below 1,000,000,000,000 USDC.')
  try {
    const atomic = parseAmount(fraction === '' ? whole : `${whole}.${fraction}`, assetDecimals)
    if (atomic === 0n) return refuse('range', 'Expected an amount above 0.')
    return formatAmount(atomic, assetDecimals, 2)
  } catch (error) {
    if (!isTollgateError(error)) throw error
    const places = fraction.replace(/0+$/, '').length
    return refuse(
      'too_many_decimals',
      `Expected at most ${assetDecimals} decimals, as USDC has, but this amount has ${places}.`,
    )
  }
}

function readPage(path: string, given: string | null | undefined, problems: ErrorDetail[]): string | null {
  if (given == null) return null
  const url = URL.parse(given)
  // A URL with a user name and password is usually an attempt to deceive.
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

const secretPrefix = 'pscs_'

/** A session and its client secret. Only this process and the response to the creation have the secret. */
export interface CreatedSession {
  readonly session: Session
  readonly clientSecret: string
}

/**
 * Creates a payment session. The client secret is 32 random bytes, and the database stores only its SHA-256. With an
 * `Idempotency-Key` the request can be repeated, so the secret is then an HMAC of the session's id. The HMAC is as hard to guess
 * and can be computed again.
 *
 * @param idempotencyKey as sent; the same key returns the same session for 24 hours
 * @throws what {@link readSession} throws; `VALIDATION_ERROR` if no wallet could be paid; `IDEMPOTENCY_KEY_REUSED`; `LIMIT_REACHED`
 */
export async function createSession(
  api: Api,
  store: Store,
  body: SessionBody,
  idempotencyKey?: string,
): Promise<CreatedSession> {
  const idempotency =
    idempotencyKey === undefined
      ? null
      : { key: idempotencyKey, requestHash: hash('sha256', JSON.stringify(body)) }
  // The stored session is checked first, because later changes of the link or the store do not change the response.
  const before = idempotency === null ? undefined : await api.sessions.madeBefore(store.id, idempotency)
  if (before !== undefined) return repeatedResponse(api, before)
  const fields = await readSession(api, store.id, body)
  await refuseUnpayableAmount(api, store, fields.price)
  const nowMs = api.clock.now()
  const id = randomUUID()
  const clientSecret = idempotency === null ? secretOf(randomBytes(32)) : secretToRetell(api, id)
  const created = {
    ...fields,
    id,
    storeId: store.id,
    secretHash: hashOf(clientSecret),
    payout: store.payout,
    asks: null,
    createdAtMs: nowMs,
    expiresAtMs: nowMs + SESSION_LIFETIME_MS,
    idempotency,
  }
  const session = await api.sessions.create(created, api.maxOpenSessionsPerStore)
  return session.id === id ? { session, clientSecret } : repeatedResponse(api, session)
}

/** Returns the same session and client secret again. @throws `CONFLICT` if the secret cannot be computed any more */
function repeatedResponse(api: Api, session: Session): CreatedSession {
  const clientSecret = secretToRetell(api, session.id)
  if (isSecretOf(session, clientSecret)) return { session, clientSecret }
  throw new TollgateError(
    'CONFLICT',
    'The payment session of this Idempotency-Key was created under another server secret. Send a new key to create a new session.',
  )
}

const secretOf = (bytes: Uint8Array) => secretPrefix + Buffer.from(bytes).toString('base64url')
/** The client secret of a session whose creation can be repeated. */
export const secretToRetell = ({ sealer }: Pick<Api, 'sealer'>, id: string): string =>
  secretOf(sealer.mac('session-secret', id))
/** The stored hash of a client secret. */
export const hashOf = (secret: string): string => hash('sha256', secret)

/** Whether this is the client secret of a session. The comparison takes constant time. */
export function isSecretOf({ secretHash }: Pick<Session, 'secretHash'>, secret: string): boolean {
  const given = createHash('sha256').update(secret).digest()
  const kept = Buffer.from(secretHash, 'hex')
  return kept.length === given.length && timingSafeEqual(given, kept)
}

/**
 * Refuses an amount that no buyer could pay now, because there is no wallet or the amount is less than any network settles. @throws
 * `VALIDATION_ERROR`
 */
async function refuseUnpayableAmount(api: Api, { payout }: Store, price: string): Promise<void> {
  refuseUnpayable(api, payout, { price })
  if (api.termsOf({ price, payout }).length > 0) return
  const faults = await api.payoutFaults(payout, { price })
  const message = `No buyer could pay this: ${faults.join(' ') || 'the store has no wallet on an open network.'}`
  throw validationError([{ path: 'amount', code: 'not_payable', message }])
}
