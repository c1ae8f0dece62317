import { isLoopback } from '../../core/http/isLoopback.ts'
import { VaultError } from '../errors/error.ts'

/** Where a credential may be sent: every part has to hold. */
export interface CallRule {
  /** `https://api.example.com`, with a port where it is not 443. */
  readonly origin: string
  /** Upper case. */
  readonly methods: readonly string[]
  /** `/v1/items`, `/v1/items/*` (one segment), `/v1/**` (anything below). */
  readonly paths: readonly string[]
}

/** How the secret is put into a request. */
export type Injection =
  | { readonly kind: 'bearer' }
  | { readonly kind: 'header'; readonly name: string; readonly prefix: string }
  | { readonly kind: 'query'; readonly name: string }
  /** The secret is `user:password`. */
  | { readonly kind: 'basic' }

/** A credential as it is stored, encrypted. Without rules it can't be used by anybody. */
export interface Credential {
  readonly secret: string
  readonly inject: Injection
  readonly rules: readonly CallRule[]
  /** Address ranges that are not public and may be called all the same, such as `127.0.0.1/32`. */
  readonly allowPrivate: readonly string[]
}

/** What the owner may say about a credential beside its value; everything else stays as it was. */
export interface CredentialSettings {
  readonly inject?: Injection
  readonly rules?: readonly CallRule[]
  readonly allowPrivate?: readonly string[]
}

/** Above this, UTF-8 and latin1 differ, and no server says which of them it reads in a header. */
const LAST_ASCII = 0x7e

/**
 * A secret has to arrive as it is stored. In a query anything does, since it is percent-encoded there.
 * @throws `VALIDATION_ERROR` that says what is wrong with it, and never what it is
 */
export function assertFits(secret: string, inject: Injection): void {
  if (inject.kind === 'query') return
  const wrong = misfitOf(secret, inject)
  if (wrong === undefined) return
  throw invalid(
    `value: expected a credential that an HTTP header can carry, got one that ${wrong}. Check that it was copied whole and alone. If the API takes it as a query parameter, store it with --query NAME (inject {kind: query, name}); if it is for no call, under custom.*.`,
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
  // Servers cut blanks off the ends of a header.
  if (kind !== 'basic' && secret.trim() !== secret) return 'begins or ends with a blank'
  return undefined
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
/** Headers that frame or route a request: a credential in one of them would be none. */
const framing = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'te',
  'upgrade',
  'expect',
])

/** Checks settings from outside. @throws `VALIDATION_ERROR` that says what was expected */
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

/** `*` stands for a whole segment, `**` for all that follow, at the end only. */
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

/** What the owner is told where the secret would travel unencrypted over more than this machine. */
export function plainHttpWarnings(rules: readonly Pick<CallRule, 'origin'>[]): readonly string[] {
  const origins = new Set(rules.map(({ origin }) => origin))
  return [...origins]
    .filter((origin) => origin.startsWith('http:') && !isLoopback(new URL(origin).hostname))
    .map(
      (origin) =>
        `The credential goes to ${origin} unencrypted: whoever is on the way can read it. Use https.`,
    )
}

const isToken = (value: unknown): value is string => typeof value === 'string' && token.test(value)
const isPrintable = (value: unknown): value is string =>
  typeof value === 'string' && /^[\x20-\x7e]{0,64}$/.test(value)
const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)
