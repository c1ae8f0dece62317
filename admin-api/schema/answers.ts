/** Response schemas: documentation and the tests' measure of exactness; answers are written by JSON.stringify. */

/** The envelope of an answer that succeeded. */
export const success = (data: object) => ({
  type: 'object',
  additionalProperties: false,
  required: ['success', 'data'],
  properties: { success: { const: true }, data },
})

/** An object whose fields are all there, always. */
export const exactly = <P extends Record<string, object>>(properties: P, description?: string) => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties),
  properties,
  ...(description === undefined ? {} : { description }),
})

export const listOf = (items: object) => ({ type: 'array', items })
export const text = (description?: string) => ({ type: 'string', ...(description && { description }) })
export const textOrNull = (description?: string) => ({
  type: ['string', 'null'],
  ...(description && { description }),
})
export const flag = { type: 'boolean' }
export const uuid = { type: 'string', format: 'uuid' }
export const time = { type: 'string', format: 'date-time' }
export const timeOrNull = { type: ['string', 'null'], format: 'date-time' }
export const count = { type: 'integer', minimum: 0 }
export const countOrNull = { type: ['integer', 'null'] }

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
        code: { type: 'string', description: 'Stable; branch on this.' },
        message: { type: 'string', description: 'For a person; may change.' },
        requestId: { type: 'string', description: 'Also in X-Request-Id and in the log.' },
        details: {
          type: 'array',
          items: exactly({ path: text(), code: text(), message: text() }),
        },
        retryable: { type: 'boolean', description: 'The same request may succeed later.' },
      },
    },
    cooldown_until: { type: 'string', format: 'date-time', description: 'Of a refused re-enable.' },
    permanent: { const: true, description: 'Of a refused re-enable.' },
    purchaseId: { type: 'string', description: 'Of a payment that is used, or whose outcome is open.' },
    transaction: { type: 'string', description: 'Of a payment that was sent.' },
  },
}

/** A stream of server-sent events. */
export const eventStream = {
  description: 'Server-sent events.',
  content: { 'text/event-stream': { schema: { type: 'string' } } },
}

/** The `response` part of a route: what it answers, and the errors it may answer with instead. */
export const answers = (good: Record<number, object>, ...errorStatuses: number[]) => ({
  ...good,
  ...Object.fromEntries(errorStatuses.map((status) => [status, { $ref: 'Error#' }])),
})
