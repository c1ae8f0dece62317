import { usernamePattern } from '../stores/username.ts'

/** Fields that more than one body has. Sizes: marketplace interface, sections 2 and 8. */

/**
 * Fields of an answer that clients send back with what they change: of no use in a request, and no reason to refuse one.
 * OpenAPI, Schema Object: "MAY be sent as part of a response but SHOULD NOT be sent as part of the request".
 */
export const fromAnswers = <const Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(
    names.map((name) => [name, { readOnly: true, description: 'Of answers; ignored here.' }]),
  ) as { readonly [K in Name]: { readonly readOnly: true; readonly description: string } }

/** Visible text on one line, with at least one character that is more than a space or an accent. */
const oneLine = {
  type: 'string',
  pattern: '[\\p{L}\\p{N}\\p{P}\\p{S}]',
  'x-hint': 'text on one line',
  'x-lines': 'one',
} as const

export const usernameField = {
  type: 'string',
  pattern: usernamePattern,
  'x-hint': '3 to 32 characters of a-z, 0-9 and _',
  description: 'Unique; part of every address of the store.',
} as const

export const displayNameField = { ...oneLine, maxLength: 50, description: 'Shown to buyers.' } as const
export const titleField = {
  ...oneLine,
  maxLength: 200,
  description: 'What is sold, in a few words.',
} as const
export const keyNameField = { ...oneLine, maxLength: 64, description: 'To tell keys apart.' } as const

/** Several lines: tab and line ends are the only control characters. */
const manyLines = { 'x-lines': 'many' } as const

export const bioField = { type: ['string', 'null'], ...manyLines, maxLength: 160 } as const
export const descriptionField = { type: ['string', 'null'], ...manyLines, maxLength: 500 } as const

export const commentField = { ...descriptionField, description: 'What was good, or was not.' } as const

/**
 * A host right behind the slashes: readers of URLs make `http://x` of `http:///x`. No name and no password before it, which
 * everyone would see.
 */
const httpUrl = 'https?://[^\\s<>"\'\\\\/?#@]+(?:[/?#][^\\s<>"\'\\\\]*)?'

/** An address of something that browsers show; never fetched from here. Empty, as answers show it, is none. */
export const httpUrlField = {
  type: ['string', 'null'],
  maxLength: 2048,
  pattern: `^(?:${httpUrl})?$`,
  'x-hint':
    'a whole URL such as https://shop.example/thanks, without a name or password, percent-encoded: %20 for a space, also for quotes, < > and \\',
  'x-lines': 'one',
} as const

/** The same, where there is an address or none at all. */
export const givenUrlField = { ...httpUrlField, pattern: `^${httpUrl}$` } as const

export const chainField = { type: 'string', enum: ['base', 'solana'] } as const
export const walletField = { type: 'string', minLength: 1, maxLength: 128 } as const

export const signatureField = {
  type: 'string',
  minLength: 1,
  // ERC-6492 wraps the call that deploys the wallet, so a signature can be long.
  maxLength: 65_536,
  description: 'base: hex, contract wallets too. solana: base64 or base58.',
} as const
export const signedTextField = {
  type: 'string',
  minLength: 1,
  maxLength: 4_096,
  description: 'The text of the nonce step, unchanged.',
} as const

/** A body in which a wallet shows that it signed the text of the nonce step; some have more fields. */
export const signedByWallet = {
  type: 'object',
  additionalProperties: false,
  required: ['address', 'chain', 'signature', 'message'],
  properties: {
    address: walletField,
    chain: chainField,
    signature: signatureField,
    message: signedTextField,
  },
} as const
