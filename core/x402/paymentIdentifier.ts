import { isObject, own } from './strictJson.ts'

/** Name of the extension with which a buyer gives a payment an id of its own, so that a repeated purchase is charged once. */
export const identifierName = 'payment-identifier'

const form = /^[\w-]{16,128}$/

/** The form of an id, for messages. */
export const identifierForm = '16 to 128 letters, digits, hyphens and underscores'

/**
 * The extension in a 402. Its schema says only what the form of an id is, because every unpaid call transfers it and every payment
 * sends it back.
 *
 * @see https://github.com/x402-foundation/x402/blob/main/specs/extensions/payment_identifier.md
 */
export const identifierOffer = {
  info: { required: false },
  schema: { properties: { id: { type: 'string', pattern: form.source } } },
} as const

/**
 * Reads the id from the `extensions` of a payment.
 *
 * @returns undefined without an id, such as of a client that sends the extension of the 402 back as it was. Null for an id that does
 *   not have the form
 */
export function readIdentifier(extensions: unknown): string | null | undefined {
  const extension = isObject(extensions) ? own(extensions, identifierName) : undefined
  if (extension === undefined || extension === null) return undefined
  const info = isObject(extension) ? own(extension, 'info') : undefined
  if (!isObject(info)) return null
  const id = own(info, 'id')
  if (id === undefined) return undefined
  return typeof id === 'string' && form.test(id) ? id : null
}
