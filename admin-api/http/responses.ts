import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Change } from '../../core/ports/store/changes.ts'
import type { Api } from '../deps.ts'

/** The envelope of a successful response. Routes that the marketplace interface defines as bare do not use it. */
export const ok = <T>(data: T): { success: true; data: T } => ({ success: true, data })

export const isoTime = (ms: number): string => new Date(ms).toISOString()
export const isoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))
/** Response schemas are documentation, and tests check responses against them. JSON.stringify writes the responses. */

/** The schema of a successful response in its envelope. */
export const success = (data: object) => ({
  type: 'object',
  additionalProperties: false,
  required: ['success', 'data'],
  properties: { success: { const: true }, data },
})

/** The schema of an object that always has all of these fields. */
export const exactly = <P extends Record<string, object>>(properties: P, description?: string) => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties),
  properties,
  ...(description === undefined ? {} : { description }),
})

export const listOf = (items: object) => ({ type: 'array', items })
/** Schemas of response fields. */
export const field = {
  text: (description?: string) => ({ type: 'string', ...(description && { description }) }),
  textOrNull: (description?: string) => ({ type: ['string', 'null'], ...(description && { description }) }),
  flag: { type: 'boolean' },
  uuid: { type: 'string', format: 'uuid' },
  time: { type: 'string', format: 'date-time' },
  timeOrNull: { type: ['string', 'null'], format: 'date-time' },
  count: { type: 'integer', minimum: 0 },
  countOrNull: { type: ['integer', 'null'] },
}

export const errorSchema = {
  $id: 'Error',
  type: 'object',
  additionalProperties: false,
  required: ['success', 'error'],
  properties: {
    success: { const: false },
    error: {
      type: 'object',
      additionalProperties: false,
      required: ['code', 'message', 'requestId', 'retryable'],
      properties: {
        code: {
          type: 'string',
          description: 'The error code, which never changes its meaning.',
        },
        message: { type: 'string', description: 'A message for people. The text may change.' },
        requestId: {
          type: 'string',
          description: 'The id of the request, which is also in the header X-Request-Id and in the log.',
        },
        details: {
          type: 'array',
          items: exactly({ path: field.text(), code: field.text(), message: field.text() }),
        },
        retryable: {
          type: 'boolean',
          description: 'True if the same request may succeed later without a change.',
        },
      },
    },
    cooldown_until: {
      type: 'string',
      format: 'date-time',
      description: 'Only in the error RE_ENABLE_FAILED.',
    },
    permanent: { const: true, description: 'Only in the error RE_ENABLE_FAILED.' },
    purchaseId: {
      type: 'string',
      description: 'Only for a payment that was already used or whose outcome is unknown.',
    },
    transaction: { type: 'string', description: 'Only for a payment that was sent to the chain.' },
  },
}

/** The response schema of a stream of server-sent events. */
export const eventStream = {
  description: 'Server-sent events.',
  content: { 'text/event-stream': { schema: { type: 'string' } } },
}

/** The `response` part of a route's schema. It has the route's successful responses and the errors that the route can return. */
export const respond = (good: Record<number, object>, errorStatuses: readonly number[] = []) => ({
  ...good,
  ...Object.fromEntries(errorStatuses.map((status) => [status, { $ref: 'Error#' }])),
})

const cursor = {
  type: 'string',
  minLength: 1,
  maxLength: 512,
  description: 'To get the next page, the `nextCursor` of the previous response.',
} as const

/** Schemas of paged lists. */
export const paging = {
  /** The position where a page starts. It is the `nextCursor` of the previous page. */
  cursor,
  query: {
    type: 'object',
    properties: { limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 }, cursor },
  },
  /** The position where the next page starts. */
  next: field.textOrNull('Null on the last page.'),
} as const

/**
 * The `Link` header with the next page's address (RFC 8288), for responses that cannot contain a cursor.
 *
 * @param query of the next page, without undefined values
 */
export function nextLink(
  { publicUrl }: Pick<Api, 'publicUrl'>,
  path: string,
  query: Readonly<Record<string, string | number | undefined>>,
): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  )
  return `<${publicUrl}${path}?${new URLSearchParams(given)}>; rel="next"`
}

/** Whether the Accept header names CSV first. It may name JSON later or not at all. */
export function prefersCsv(accept: string | undefined): boolean {
  if (accept === undefined) return false
  const csvAt = accept.indexOf('text/csv')
  const jsonAt = accept.indexOf('application/json')
  return csvAt >= 0 && (jsonAt < 0 || csvAt < jsonAt)
}
/** Rows as RFC 4180 text with a header line. Cells that a spreadsheet would run as a formula are escaped. */
export function toCsv<Row>(columns: readonly (keyof Row & string)[], rows: readonly Row[]): string {
  const lines = [columns.join(','), ...rows.map((row) => columns.map((c) => cell(row[c])).join(','))]
  return `${lines.join('\r\n')}\r\n`
}

function cell(value: unknown): string {
  const text = value == null ? '' : String(value)
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/**
 * Sends a response that any client may cache for a minute, or 304 if the client already has it (RFC 9110, section 13.1.2).
 * @param tail appended to the body, and not part of the ETag
 */
export function sendCached(
  request: FastifyRequest,
  reply: FastifyReply,
  { body, etag, policy }: CachedResponse,
  type = 'application/json; charset=utf-8',
  tail = '',
): FastifyReply {
  reply.header('etag', etag).header('cache-control', 'public, max-age=60')
  if (policy !== undefined) reply.header('content-security-policy', policy)
  if (isKnown(request.headers['if-none-match'], etag)) return reply.code(304).send()
  return reply
    .type(type)
    .serializer(String)
    .send(body + tail)
}

/** Whether an `If-None-Match` header names this response, or any response. */
export const isKnown = (header: string | undefined, etag: string): boolean =>
  header?.split(',').some((one) => ['*', etag, etag.replace('W/', '')].includes(one.trim())) === true

/** How long a response is cached, in ms (marketplace interface, section 8). */
const RETENTION_MS = 60_000
/** Maximum number of cached responses. */
const MAX_ANSWERS = 1_000
const MAX_CHARS = 16_000_000

/** A discovery response, and the links in it. */
export interface Answer {
  readonly body: string
  /** `username/slug` of every link in the response. */
  readonly addresses: readonly string[]
  /** The Content-Security-Policy of a page. */
  readonly policy?: string
}

export interface CachedResponse extends Answer {
  readonly etag: string
}

/**
 * A cache of responses that are the same for every client. It keeps a response for a minute. A change of a link drops the responses
 * that contain the link.
 */
export interface ResponseCache {
  /** Concurrent requests for the same response share one computation. */
  of(key: string, make: () => Promise<Answer>): Promise<CachedResponse>
  close(): void
}

export function createResponseCache({ clock, onChange }: Pick<Api, 'clock' | 'onChange'>): ResponseCache {
  const cached = new LRUCache<string, CachedResponse>({
    max: MAX_ANSWERS,
    maxSize: MAX_CHARS,
    sizeCalculation: ({ body }, key) => body.length + key.length,
    ttl: RETENTION_MS,
    ttlResolution: 0,
    perf: clock,
  })
  const underWay = new Map<string, Promise<CachedResponse>>()
  let changes = 0

  const end = onChange((change) => {
    changes++
    // A computation in progress may have read the data before the change, so requests from now on must not share it.
    underWay.clear()
    for (const [key, { addresses }] of [...cached.entries()]) {
      if (addresses.some((address) => isAbout(change, address))) cached.delete(key)
    }
  })

  async function makeOne(key: string, make: () => Promise<Answer>): Promise<CachedResponse> {
    const before = changes
    const response = await make()
    const made = { ...response, etag: `W/"${hash('sha256', response.body, 'base64url').slice(0, 22)}"` }
    // If anything changed during the computation, the response may be from before the change. So it is not cached.
    if (before === changes) cached.set(key, made)
    return made
  }

  return {
    async of(key, make) {
      const present = cached.get(key) ?? underWay.get(key)
      if (present !== undefined) return present
      const making = makeOne(key, make)
      underWay.set(key, making)
      try {
        return await making
      } finally {
        if (underWay.get(key) === making) underWay.delete(key)
      }
    },
    close: end,
  }
}

const isAbout = (change: Change, address: string): boolean =>
  change.kind === 'link'
    ? address === `${change.username}/${change.slug}`
    : address.startsWith(`${change.username}/`)
