import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import { parseScope } from '../../agents/grant.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import { countOf, hostOf } from '../../effects/plainWords.ts'
import { VaultError } from '../../errors/error.ts'
import { callRequest } from '../../requests/agentRequests.ts'
import { objectIn } from '../../requests/request.ts'
import { assertAllowedCall, callApi, type FrozenCall, readCallHeaders } from '../../secrets/callApi.ts'
import { assertNoOverride, readCallUrl } from '../../secrets/callTarget.ts'
import { type Credential, plainHttpWarnings } from '../../secrets/credential.ts'
import type { VaultDeps } from '../deps.ts'
import { hashOf, type Plan, type VaultCall, withoutMoney } from '../vaultCall.ts'

/**
 * `POST /v1/vault/call` `{scope, method, url, headers?, body?}` → the API's response. The vault adds the credential to the
 * request and masks it in the response.
 */
export function planCall(x: VaultCall, { vault, egress }: VaultDeps): Plan {
  const input = callRequest.check(x.input)
  const method = input.method.toUpperCase()
  const scope = parseScope(input.scope)
  if (!scope.startsWith('credentials.api.'))
    throw new VaultError('VALIDATION_ERROR', 'scope: Expected a credential, such as credentials.api.github.')
  const call: FrozenCall = {
    method,
    url: readCallUrl(input.url).href,
    ...readBody(input.headers, input.body),
  }
  if (call.body !== null) assertNoOverride(call.body)
  const hash = hashOf('call', scope, JSON.stringify(call))
  return {
    ...withoutMoney,
    action: 'CALL',
    scope,
    verb: 'call',
    kind: 'call',
    parts: () => partsOf(call),
    plainWords: [
      `Call ${method} on ${hostOf(call.url) ?? 'the address below'} with the credential ${scope}.`,
      ...(call.body === null ? [] : [`Send a body of ${countOf(call.body)}.`]),
    ],
    warnings: plainHttpWarnings([{ origin: new URL(call.url).origin }]),
    requestHash: hash,
    frozenHash: hash,
    repeat: 'once',
    act: async () => {
      return { status: 200, body: { ...(await callApi(credential(), call, egress)) } }
    },
    // A call that no rule allows is refused before the owner is asked.
    check: () => assertAllowedCall(credential(), call),
  }

  function credential(): Credential {
    const stored = vault.records.getJson<Credential>('credential', scope)
    if (stored === undefined) throw new VaultError('NOT_FOUND', `Nothing is stored under ${scope}.`)
    return stored
  }
}

/** The parts of the call that the owner sees. The credential is not among them. */
function partsOf({ method, url, headers, body }: FrozenCall): PartDraft[] {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return [
    { title: 'URL', content: url, shownAs: `${method} ${url}` },
    ...(lines.length === 0 ? [] : [{ title: 'Headers', content: lines.join('\n') }]),
    ...(body === null ? [] : [{ title: 'Body', content: body }]),
  ]
}

function readBody(
  headersIn: object | string | undefined,
  body: string | object | undefined,
): Pick<FrozenCall, 'headers' | 'body'> {
  const headers = { ...readCallHeaders(headersIn === undefined ? {} : objectIn('headers', headersIn)) }
  if (body === undefined) return { headers, body: null }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  if (/^\s*[[{]/.test(text) && parseStrictJson(text).ok) headers['content-type'] ??= 'application/json'
  return { headers, body: text }
}
