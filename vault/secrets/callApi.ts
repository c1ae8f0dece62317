import type { EgressRequest, EgressResponse } from '../../core/ports/egress.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import type { VaultEgress } from '../ports/egress.ts'
import { isAllowedCall, parameterNames } from './callTarget.ts'
import { assertFits, type Credential, type Injection } from './credential.ts'
import { createMask } from './maskSecret.ts'

/** A validated and frozen call, without the secret. */
export interface FrozenCall {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

export interface CallResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** `base64` when the body is not UTF-8 text. */
  readonly body_encoding: 'utf8' | 'base64'
}

const TIMEOUT_MS = 30_000
const MAX_ANSWER_BYTES = 1_048_576
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
const headerValue = /^[\x20-\x7e]{0,4096}$/
/**
 * Headers that an agent may not set. They are credentials, framing, headers by which servers trust the origin of a call,
 * headers that make it a different call than the rules judged, and headers that request ranges or encodings in which the mask
 * would not find the secret. Characters other than letters and digits are compared as `-`, because servers pass header names on
 * as variable names.
 */
const reserved = new RegExp(
  `^(?:${[
    'authorization.*|proxy.*|cookie2?|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect',
    'host|x-host|forwarded.*|via|x-forwarded.*|x-real-ip|(?:x-|true-|cf-|fastly-)?(?:cluster-)?(?:client|connecting)-ip',
    'x-remote-.*|remote-.*|x-envoy-.*|x-proxy.*|origin|referer|sec-.*|max-forwards',
    '(?:x-)?http-method.*|(?:x-)?method-override|x-method|x-original-.*|x-rewrite-.*|x-override-.*|x-url-.*|request-uri|x-request-uri',
    'range|if-range|request-range|accept-encoding|accept-charset|content-encoding|content-range|a-im',
  ].join('|')})$`,
)

/** Response headers that the agent may get. `set-cookie` is not one of them, because a cookie is a credential of its own. */
const passedOn =
  /^(?:content-type|content-language|etag|last-modified|location|link|retry-after|date|x-ratelimit-.*|ratelimit.*|x-request-id|x-github-.*)$/

/** Validates an agent's headers. @throws `VALIDATION_ERROR` */
export function readCallHeaders(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length > 50)
    throw invalid('headers: Expected an object of at most 50 names and string values.')
  const headers: Record<string, string> = {}
  const seen = new Set<string>()
  for (const [name, text] of Object.entries(value)) {
    if (!headerName.test(name) || typeof text !== 'string' || !headerValue.test(text))
      throw invalid('headers: Expected valid header names and printable values.')
    const lower = name.toLowerCase()
    const variable = variableOf(lower)
    if (reserved.test(variable) || seen.has(variable))
      throw invalid(`headers: ${lower} cannot be set here, or was sent twice.`)
    seen.add(variable)
    headers[lower] = text
  }
  return headers
}

/** The name as in a server's environment variables, where `x_api-key` and `x-api-key` are the same. */
const variableOf = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')

/** Checks that a rule of the credential allows this call. @throws `SCOPE_DENIED` */
export function assertAllowedCall({ rules }: Credential, call: FrozenCall): void {
  if (isAllowedCall(rules, call.method, new URL(call.url))) return
  throw new VaultError(
    'SCOPE_DENIED',
    `No rule of this credential allows ${call.method} at ${new URL(call.url).origin} and that path.`,
    {
      action:
        'Call an address that the credential allows, or ask the owner to allow this call for the credential.',
    },
  )
}

/**
 * Makes the call with the credential and masks the credential in the response. Redirects are not followed. A response in which
 * the mask may not find the secret (compressed, too long) is not returned.
 *
 * @throws `SCOPE_DENIED`, `UPSTREAM_ERROR`, `UPSTREAM_TIMEOUT`, `OUTCOME_UNKNOWN`, `VALIDATION_ERROR`
 */
export async function callApi(
  credential: Credential,
  call: FrozenCall,
  egress: VaultEgress,
): Promise<CallResponse> {
  assertAllowedCall(credential, call)
  const request = inject(credential, call)
  try {
    const response = await egress(credential.allowPrivate).request(request)
    const encoding = response.headers['content-encoding']
    if (encoding !== undefined && String(encoding).toLowerCase() !== 'identity')
      throw new VaultError(
        'UPSTREAM_ERROR',
        'The API sent a compressed response, although the request did not allow it.',
      )
    return await masked(credential, response)
  } catch (error) {
    throw failureOf(call.method, error)
  }
}

function inject(credential: Credential, call: FrozenCall): EgressRequest {
  const url = new URL(call.url)
  const headers: Record<string, string> = { ...call.headers }
  const { inject: how, secret } = credential
  const name = how.kind === 'header' ? how.name.toLowerCase() : 'authorization'
  if (how.kind === 'query') {
    const wanted = how.name.toLowerCase()
    const isThere = parameterNames(url).some((name) => name.toLowerCase().split('[')[0] === wanted)
    if (isThere) throw invalid(`url: expected no query parameter ${how.name}.`)
    url.searchParams.append(how.name, secret)
  } else {
    if (Object.keys(headers).some((given) => variableOf(given) === variableOf(name)))
      throw invalid(`headers: ${name} cannot be set here.`)
    headers[name] = headerOf(how, secret)
  }
  return {
    url: url.href,
    method: call.method,
    headers,
    ...(call.body !== null && { body: call.body }),
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_ANSWER_BYTES,
  }
}

function headerOf(how: Exclude<Injection, { kind: 'query' }>, secret: string): string {
  assertFits(secret, how)
  if (how.kind === 'bearer') return `Bearer ${secret}`
  if (how.kind === 'basic') return `Basic ${Buffer.from(secret).toString('base64')}`
  return `${how.prefix}${secret}`
}

async function masked({ secret, inject: how }: Credential, response: EgressResponse): Promise<CallResponse> {
  const made = how.kind === 'basic' ? [secret.slice(secret.indexOf(':') + 1), toBase64(secret)] : []
  const mask = createMask([secret, ...made])
  const headers = await maskedHeaders(response.headers, mask)
  const bytes = Buffer.from(await mask(Buffer.from(response.body).toString('latin1')), 'latin1')
  const text = utf8Of(bytes)
  return text === undefined
    ? { status: response.status, headers, body: bytes.toString('base64'), body_encoding: 'base64' }
    : { status: response.status, headers, body: text, body_encoding: 'utf8' }
}

const toBase64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64')

/**
 * The response headers that the agent gets, masked. A header whose name contains the secret is left out. If the values together
 * contain it, only `content-type` stays.
 */
async function maskedHeaders(
  given: EgressResponse['headers'],
  mask: (text: string) => Promise<string>,
): Promise<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && passedOn.test(name) && (await mask(name)) === name)
      headers[name] = (await mask(String(value))).slice(0, 4_096)
  const together = Object.values(headers).join('')
  if ((await mask(together)) === together) return headers
  const { 'content-type': type } = headers
  return type === undefined ? {} : { 'content-type': type }
}

function utf8Of(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The error of a failed call. A call that changes something at the API must not be repeated after it was sent. */
function failureOf(method: string, error: unknown): VaultError {
  const failure = isVaultError(error) ? error : upstreamError(error)
  const isUnsent = (error as { isUnsent?: unknown } | null)?.isUnsent === true
  if (!failure.retryable || isUnsent || method === 'GET' || method === 'HEAD') return failure
  return new VaultError(
    'OUTCOME_UNKNOWN',
    `${failure.message} The call was sent and may have been performed.`,
    {
      action: 'Check with the API whether the call was performed before you call again.',
      cause: failure,
    },
  )
}

/** The error in the vault's own words. The original message may quote the URL, whose query may contain a secret. */
function upstreamError(error: unknown): VaultError {
  const code = String((error as { code?: unknown } | null)?.code)
  if (code === 'EGRESS_TIMEOUT') return new VaultError('UPSTREAM_TIMEOUT')
  if (code === 'EGRESS_REFUSED' || code === 'VALIDATION_ERROR')
    return new VaultError(
      'SCOPE_DENIED',
      'The address is not public, and no rule of this credential allows the address.',
    )
  if (code === 'EGRESS_TOO_LARGE')
    return new VaultError('UPSTREAM_ERROR', `The response is larger than ${MAX_ANSWER_BYTES} bytes.`)
  return new VaultError('UPSTREAM_ERROR')
}

const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)
