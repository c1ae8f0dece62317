import type { ErrorCode } from '../../core/errors/codes.ts'
import { TollgateError } from '../../core/errors/error.ts'

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const isUuid = (text: string): boolean => uuidForm.test(text)

/**
 * The id of a path, in lower case. What is not a UUID names nothing, so the answer is that of an unknown id.
 *
 * @throws the given 404 code
 */
export function idOrNotFound(id: string, code: ErrorCode): string {
  if (isUuid(id)) return id.toLowerCase()
  throw new TollgateError(code)
}

/** Parameters of every route that ends in an id. */
export const idParams = {
  type: 'object',
  required: ['id'],
  properties: { id: { type: 'string', format: 'uuid' } },
} as const

export interface IdParams {
  readonly id: string
}
