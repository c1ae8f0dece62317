import { parseScope } from '../../agents/grant.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import { VaultError } from '../../errors/error.ts'
import type { Records } from '../../ports/records.ts'
import {
  addressRequest,
  ownerWriteRequest,
  scopeRequest,
  writeRequest,
} from '../../requests/agentRequests.ts'
import type { InputOf } from '../../requests/request.ts'
import {
  assertFits,
  type Credential,
  type CredentialSettings,
  parseCredentialSettings,
  plainHttpWarnings,
} from '../../secrets/credential.ts'
import { accountOn } from '../chainOf.ts'
import type { VaultDeps } from '../deps.ts'
import { hashOf, type Plan, type VaultCall, withoutMoney } from '../vaultCall.ts'

const credentials = 'credentials.api.'

/** `POST /v1/vault/read` `{scope, agent_name}` → `{value}`. The value of a wallet is its address. */
export function planRead(x: VaultCall, parts: VaultDeps): Plan {
  const scope = parseScope(scopeRequest.check(x.input).scope)
  const { records } = parts.vault
  if (scope.startsWith('wallet.')) {
    const chain = scope.slice('wallet.'.length)
    return {
      ...readPlan(scope),
      verb: 'address',
      act: async () => ({ status: 200, body: { value: accountOn(parts, chain).key.address } }),
    }
  }
  // An intruder with brief access to a page session must not get the secrets.
  if (x.who.kind === 'owner' && x.via !== 'socket')
    throw new VaultError(
      'OWNER_REQUIRED',
      "Expected the owner's socket to read a stored value: tollgate vault get, on this machine. A browser session of the page can store and delete values, but cannot read them.",
    )
  return {
    ...readPlan(scope),
    verb: 'read',
    act: async () => ({ status: 200, body: { value: storedValue(records, scope) } }),
  }
}

const readPlan = (scope: string) =>
  ({
    ...withoutMoney,
    action: 'READ',
    scope,
    plainWords: [`Hand out the stored value of ${scope}.`],
    warnings: scope.startsWith(credentials)
      ? [
          'This approval gives the agent the credential itself. The agent can then use the credential anywhere, without the vault.',
        ]
      : [],
    requestHash: hashOf('read', scope),
    frozenHash: hashOf('read', scope),
    repeat: 'new',
  }) as const

/** The stored text. @throws `NOT_FOUND` */
export function storedValue(records: Records, scope: string): string {
  const value = scope.startsWith(credentials)
    ? records.getJson<Credential>('credential', scope)?.secret
    : records.getText('value', scope)
  if (value === undefined) throw new VaultError('NOT_FOUND', `Nothing is stored under ${scope}.`)
  return value
}

/**
 * `POST /v1/vault/write` `{scope, value, agent_name}` → `{scope, created, version}`. For a credential, the owner may also send
 * `settings` `{inject?, rules?, allow_private?}`, which set how it is used.
 */
export function planWrite(x: VaultCall, parts: VaultDeps): Plan {
  const { settings: given, ...input }: InputOf<typeof ownerWriteRequest> =
    x.who.kind === 'owner' ? ownerWriteRequest.check(x.input) : writeRequest.check(x.input)
  const { value } = input
  const scope = parseScope(input.scope)
  assertStorable(scope)
  const settings = given === undefined ? {} : parseCredentialSettings(given)
  const { records } = parts.vault
  if (scope.startsWith(credentials)) assertFits(value, credentialOf(records, scope, value, settings).inject)
  const shown = versionOf(records, scope)
  const exists = shown !== null
  const hash = hashOf('write', scope, value)
  return {
    ...withoutMoney,
    action: 'WRITE',
    scope,
    verb: 'write',
    kind: 'write',
    parts: () => [
      ...storedPart(records, scope, 'Old value'),
      { title: 'New value', content: value, isSecret: scope.startsWith(credentials) },
    ],
    plainWords: [
      `${exists ? 'Replace' : 'Store'} the value of ${scope} with the agent's text of ${value.length} characters.`,
    ],
    warnings: exists ? ['The current value will be lost.'] : [],
    requestHash: hash,
    frozenHash: hash,
    repeat: 'new',
    frozen: { version: shown },
    act: async () => {
      assertUnchanged(x, records, scope)
      const written = await writeValue(records, scope, value, settings)
      const warnings = x.who.kind === 'owner' ? ownersWarnings(records, scope, settings) : []
      return { status: 200, body: warnings.length === 0 ? written : { ...written, warnings } }
    },
  }
}

function ownersWarnings(records: Records, scope: string, { rules = [] }: CredentialSettings): string[] {
  const isUseless = records.getJson<Credential>('credential', scope)?.rules.length === 0
  return [
    ...plainHttpWarnings(rules),
    ...(isUseless ? [`No call can use ${scope} yet. Name the server of the credential (--origin).`] : []),
  ]
}

/** Stores a value. For a credential, omitted settings stay unchanged. */
export async function writeValue(
  records: Records,
  scope: string,
  value: string,
  settings: CredentialSettings = {},
): Promise<{ scope: string; created: boolean; version: number }> {
  assertStorable(scope)
  const { created, version } = scope.startsWith(credentials)
    ? await records.putJson('credential', scope, credentialOf(records, scope, value, settings))
    : await records.put('value', scope, value)
  return { scope, created, version }
}

function credentialOf(
  records: Records,
  scope: string,
  secret: string,
  settings: CredentialSettings,
): Credential {
  return {
    inject: { kind: 'bearer' },
    rules: [],
    allowPrivate: [],
    ...records.getJson<Credential>('credential', scope),
    ...settings,
    secret,
  }
}

/** `POST /v1/vault/delete` `{scope, agent_name}` → `{deleted}`. */
export function planDelete(x: VaultCall, parts: VaultDeps): Plan {
  const scope = parseScope(scopeRequest.check(x.input).scope)
  assertStorable(scope)
  const { records } = parts.vault
  const hash = hashOf('delete', scope)
  return {
    ...withoutMoney,
    action: 'DELETE',
    scope,
    verb: 'write',
    kind: 'delete',
    parts: () => storedPart(records, scope, 'Value'),
    frozen: { version: versionOf(records, scope) },
    plainWords: [`Delete what is stored under ${scope}.`],
    warnings: ['The value cannot be restored.'],
    requestHash: hash,
    frozenHash: hash,
    repeat: 'new',
    act: async () => {
      assertUnchanged(x, records, scope)
      return { status: 200, body: { deleted: await deleteValue(records, scope) } }
    },
  }
}

/** A part with the stored value, so that the owner sees it before it is lost. Empty if nothing is stored. */
const storedPart = (records: Records, scope: string, title: string): PartDraft[] =>
  versionOf(records, scope) === null
    ? []
    : [{ title, content: storedValue(records, scope), by: 'vault', isSecret: true }]

/**
 * Identifies the stored value. Null if nothing is stored. Versions start again after a deletion, so the id includes the time.
 */
function versionOf(records: Records, scope: string): string | null {
  const info = infoOf(records, scope)
  return info === undefined ? null : `${info.version} of ${info.updatedAt}`
}

/** Checks that the value is still the one that the owner saw and agreed to lose. @throws `APPROVAL_RESOLVED` */
function assertUnchanged({ approval }: VaultCall, records: Records, scope: string): void {
  const shown = (approval?.frozen as { version?: string | null } | null | undefined)?.version
  if (shown !== undefined && shown !== versionOf(records, scope))
    throw new VaultError(
      'APPROVAL_RESOLVED',
      `${scope} has changed since the owner was asked. Send the request again.`,
    )
}

export const deleteValue = (records: Records, scope: string): Promise<boolean> =>
  records.delete(collectionOf(scope), scope)

export const infoOf = (records: Records, scope: string) => records.info(collectionOf(scope), scope)

const collectionOf = (scope: string) => (scope.startsWith(credentials) ? 'credential' : 'value')

function assertStorable(scope: string): void {
  if (scope.startsWith('wallet.') || scope.startsWith('vault.'))
    throw new VaultError(
      'VALIDATION_ERROR',
      'scope: Expected the scope of a value, got a wallet or a vault permission.',
    )
}

/** `GET /address/:chain` → `{address, chain}`. */
export function planAddress(x: VaultCall, parts: VaultDeps): Plan {
  const { facts, key } = accountOn(parts, addressRequest.check(x.input).chain)
  const hash = hashOf('address', facts.name)
  return {
    ...withoutMoney,
    action: 'ADDRESS',
    scope: `wallet.${facts.name}`,
    verb: 'address',
    chain: facts.name,
    plainWords: [`Return the address of the wallet on ${facts.title}.`],
    requestHash: hash,
    frozenHash: hash,
    repeat: 'new',
    act: async () => ({ status: 200, body: { address: key.address, chain: facts.name } }),
  }
}
