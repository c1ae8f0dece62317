import { isLoopback } from '../../core/http/caller.ts'
import { VaultError } from '../errors/error.ts'

/** A rule for where a credential may be sent. Every part of the rule has to match. */
export interface CallRule {
  /** `https://api.example.com`, with a port unless it is 443. */
  readonly origin: string
  /** Methods in upper case. */
  readonly methods: readonly string[]
  /** `/v1/items`, `/v1/items/*` (one segment), `/v1/**` (anything below). */
  readonly paths: readonly string[]
}

/** How the secret is added to a request. */
export type Injection =
  | { readonly kind: 'bearer' }
  | { readonly kind: 'header'; readonly name: string; readonly prefix: string }
  | { readonly kind: 'query'; readonly name: string }
  /** The secret is `user:password`. */
  | { readonly kind: 'basic' }

/** A credential as stored, encrypted. Without rules, no call can use it. */
export interface Credential {
  readonly secret: string
  readonly inject: Injection
  readonly rules: readonly CallRule[]
  /** Private address ranges to which calls may connect, such as `127.0.0.1/32`. */
  readonly allowPrivate: readonly string[]
}

/** Settings of a credential that the owner may change. Omitted settings stay unchanged. */
export interface CredentialSettings {
  readonly inject?: Injection
  readonly rules?: readonly CallRule[]
  readonly allowPrivate?: readonly string[]
}

/** The last ASCII code. Above it, UTF-8 and Latin-1 differ, and servers do not agree on which of them a header uses. */
const LAST_ASCII = 0x7e

/**
 * Checks that a secret can arrive exactly as it is stored. A query string can contain any text, because it is percent-encoded.
 * @throws `VALIDATION_ERROR` that states what is wrong with the secret, without its text
 */
export function assertFits(secret: string, inject: Injection): void {
  if (inject.kind === 'query') return
  const wrong = misfitOf(secret, inject)
  if (wrong === undefined) return
  throw invalid(
    `value: expected a credential that an HTTP header can carry, got one that ${wrong}. Check that the credential was copied completely, without other text. If the API takes the credential as a query parameter, store it with --query NAME (inject {kind: query, name}). If the credential is not for calls, store it under custom.*.`,
  )
}

function misfitOf(secret: string, { kind }: Injection): string | undefined {
  if (secret === '') return 'is empty'
  const codes = [...secret].map((character) => character.codePointAt(0)!)
  const at = codes.findIndex(
    (code) => code < 0x20 || (code >= 0x7f && code <= 0x9f) || (kind !== 'basic' && code > LAST_ASCII),
  )
  if (at !== -1) {
    const code = codes[at]!
    const where = `as character ${at + 1} of ${codes.length}`
    if (code === 0x0a || code === 0x0d) return `has a line break ${where}`
    if (code > 0x9f) return `has a character outside of ASCII ${where}`
    return `has a control character (0x${code.toString(16).padStart(2, '0')}) ${where}`
  }
  // Servers remove spaces at the ends of a header.
  if (kind !== 'basic' && secret.trim() !== secret) return 'begins or ends with a space'
  return undefined
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
/** Headers that frame or route a request. A credential in one of them would not work. */
const framing = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'te',
  'upgrade',
  'expect',
])

/** Validates settings from outside. @throws `VALIDATION_ERROR` that states what was expected */
export function parseCredentialSettings(value: unknown): CredentialSettings {
  const fields = objectOf(value, 'settings', ['inject', 'rules', 'allow_private'])
  return {
    ...(fields['inject'] !== undefined && { inject: parseInjection(fields['inject']) }),
    ...(fields['rules'] !== undefined && { rules: listOf(fields['rules'], 'rules', 50).map(parseRule) }),
    ...(fields['allow_private'] !== undefined && {
      allowPrivate: listOf(fields['allow_private'], 'allow_private', 20).map(parseRange),
    }),
  }
}

function parseInjection(value: unknown): Injection {
  const fields = objectOf(value, 'inject', ['kind', 'name', 'prefix'])
  const { kind, name, prefix = '' } = fields
  if (kind === 'bearer' || kind === 'basic') return { kind }
  if (kind === 'header' && isToken(name) && !framing.has(name.toLowerCase()) && isPrintable(prefix))
    return { kind, name, prefix }
  if (kind === 'query' && isToken(name)) return { kind, name }
  throw invalid(
    'inject: expected {kind: bearer | basic}, {kind: header, name, prefix?} or {kind: query, name}.',
  )
}

function parseRule(value: unknown): CallRule {
  const fields = objectOf(value, 'rules', ['origin', 'methods', 'paths'])
  const url = typeof fields['origin'] === 'string' ? URL.parse(fields['origin']) : null
  if (url === null || !/^https?:$/.test(url.protocol) || url.origin !== fields['origin'])
    throw invalid(
      'rules: expected origin to be an exact one such as https://api.example.com, without a path.',
    )
  const wanted = listOf(fields['methods'] ?? ['GET'], 'methods', 10).map((method) => String(method))
  if (wanted.length === 0 || !wanted.every((method) => methods.has(method)))
    throw invalid(`rules: expected methods out of ${[...methods].join(', ')}.`)
  const paths = listOf(fields['paths'], 'paths', 50).map((path) => String(path))
  if (paths.length === 0 || !paths.every(isPathPattern))
    throw invalid('rules: expected paths such as /v1/items, /v1/items/* or /v1/**.')
  return { origin: url.origin, methods: wanted, paths }
}

/** `*` matches one whole segment. `**` matches all that follow and is allowed only at the end. */
const isPathPattern = (path: string): boolean =>
  /^(?:\/(?:\*|[A-Za-z0-9._~!$&'()+,=:@%-]*))*(?:\/\*\*)?$/.test(path) && path.startsWith('/')

function parseRange(value: unknown): string {
  if (typeof value === 'string' && /^[0-9a-fA-F.:]{2,45}\/\d{1,3}$/.test(value)) return value
  throw invalid('allow_private: expected address ranges such as 127.0.0.1/32.')
}

function objectOf(value: unknown, what: string, known: readonly string[]): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(`${what}: expected an object.`)
  const unknown = Object.keys(value).find((key) => !known.includes(key))
  if (unknown !== undefined) throw invalid(`${what}: expected only ${known.join(', ')}.`)
  return value as Record<string, unknown>
}

function listOf(value: unknown, what: string, most: number): readonly unknown[] {
  if (Array.isArray(value) && value.length <= most) return value
  throw invalid(`${what}: expected a list of at most ${most}.`)
}

/** Warnings about origins to which the secret would be sent unencrypted to another machine. */
export function plainHttpWarnings(rules: readonly Pick<CallRule, 'origin'>[]): readonly string[] {
  const origins = new Set(rules.map(({ origin }) => origin))
  return [...origins]
    .filter((origin) => origin.startsWith('http:') && !isLoopback(new URL(origin).hostname))
    .map(
      (origin) =>
        `The credential is sent to ${origin} unencrypted, so every network on the way can read it. Use https.`,
    )
}

const isToken = (value: unknown): value is string => typeof value === 'string' && token.test(value)
const isPrintable = (value: unknown): value is string =>
  typeof value === 'string' && /^[\x20-\x7e]{0,64}$/.test(value)
const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)
