/**
 * The type of a value that is valid under JSON Schema `S` (declared `as const`). It supports the subset of draft-07 that the
 * schemas here use. A property is optional in the type if it is not in `required` and has no `default`. Validation fills in the
 * defaults of query strings.
 */
export type Infer<S> = S extends { readonly enum: readonly (infer Value)[] }
  ? Value
  : S extends { readonly type: readonly (infer Kind)[] }
    ? InferKind<S, Kind>
    : S extends { readonly type: infer Kind }
      ? InferKind<S, Kind>
      : unknown

type InferKind<S, Kind> = Kind extends 'string'
  ? string
  : Kind extends 'integer' | 'number'
    ? number
    : Kind extends 'boolean'
      ? boolean
      : Kind extends 'null'
        ? null
        : Kind extends 'array'
          ? readonly InferItem<S>[]
          : Kind extends 'object'
            ? InferObject<S>
            : never

type InferItem<S> = S extends { readonly items: infer Item } ? Infer<Item> : unknown

type InferObject<S> = S extends { readonly properties: infer P }
  ? Flatten<
      { readonly [K in keyof P as IsThere<S, P, K> extends true ? K : never]: Infer<P[K]> } & {
        readonly [K in keyof P as IsThere<S, P, K> extends true ? never : K]?: Infer<P[K]>
      }
    >
  : S extends { readonly additionalProperties: infer Value }
    ? { readonly [key: string]: Infer<Value> }
    : { readonly [key: string]: unknown }

type IsThere<S, P, K extends keyof P> =
  K extends Required<S> ? true : P[K] extends { readonly default: unknown } ? true : false
type Required<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never
type Flatten<T> = { [K in keyof T]: T[K] } & {}

/**
 * Response fields that clients send back together with the fields that they change. A request ignores these fields instead of
 * refusing them. OpenAPI, Schema Object: "MAY be sent as part of a response but SHOULD NOT be sent as part of the request".
 */
export const fromResponses = <const Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(
    names.map((name) => [
      name,
      { readOnly: true, description: 'Only in responses. The API ignores this field in requests.' },
    ]),
  ) as { readonly [K in Name]: { readonly readOnly: true; readonly description: string } }

/** Visible text on one line, with at least one character that is not a space or a combining mark. */
const oneLine = {
  type: 'string',
  pattern: '[\\p{L}\\p{N}\\p{P}\\p{S}]',
  'x-hint': 'text on one line',
  'x-lines': 'one',
} as const

/** Text of several lines. Tab and line ends are the only control characters. */
const manyLines = { 'x-lines': 'many' } as const

/**
 * An http or https URL. The host has to follow the slashes directly, because URL parsers read `http:///x` as `http://x`. A user
 * name or password before the host is refused, because it would be public.
 */
const httpUrl = 'https?://[^\\s<>"\'\\\\/?#@]+(?:[/?#][^\\s<>"\'\\\\]*)?'

/** Marketplace interface, section 2. */
export const usernamePattern = '^[a-z0-9_]{3,32}$'

const descriptionField = { type: ['string', 'null'], ...manyLines, maxLength: 500 } as const

/** The address of something that browsers show and the service never fetches. An empty text means none, as in responses. */
const httpUrlField = {
  type: ['string', 'null'],
  maxLength: 2048,
  pattern: `^(?:${httpUrl})?$`,
  'x-hint':
    'a full URL such as https://shop.example/thanks, without user and password, percent-encoded: %20 for a space, also quotes, < > and \\',
  'x-lines': 'one',
} as const

/** Fields that several bodies share. Their sizes are from the marketplace interface, sections 2 and 8. */
export const bodyField = {
  username: {
    type: 'string',
    pattern: usernamePattern,
    'x-hint': '3 to 32 characters of a-z, 0-9 and _',
    description: 'The unique username of the store, which is part of every address of the store.',
  },
  displayName: { ...oneLine, maxLength: 50, description: 'The name of the store that buyers see.' },
  title: { ...oneLine, maxLength: 200, description: 'A few words that say what is sold.' },
  keyName: { ...oneLine, maxLength: 64, description: 'A name by which you recognize the key.' },
  bio: { type: ['string', 'null'], ...manyLines, maxLength: 160 },
  description: descriptionField,
  comment: { ...descriptionField, description: 'What the buyer found good or bad.' },
  httpUrl: httpUrlField,
  /** Like `url`, but an empty text is not allowed. */
  givenUrl: { ...httpUrlField, pattern: `^${httpUrl}$` },
  chain: { type: 'string', enum: ['base', 'solana'] },
  wallet: { type: 'string', minLength: 1, maxLength: 128 },
  signature: {
    type: 'string',
    minLength: 1,
    // A signature can be long, because ERC-6492 wraps the call that deploys the wallet.
    maxLength: 65_536,
    description:
      'The signature of the message. On Base, it is in hex, also for contract wallets. On Solana, it is in base64 or base58.',
  },
  signedText: {
    type: 'string',
    minLength: 1,
    maxLength: 4_096,
    description: 'The exact message of the nonce response.',
  },
} as const

/** A body in which a wallet proves that it signed the message of the nonce step. Some bodies have more fields. */
export const signedByWallet = {
  type: 'object',
  additionalProperties: false,
  required: ['address', 'chain', 'signature', 'message'],
  properties: {
    address: bodyField.wallet,
    chain: bodyField.chain,
    signature: bodyField.signature,
    message: bodyField.signedText,
  },
} as const
