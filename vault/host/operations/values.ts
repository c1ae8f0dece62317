import type { PartDraft } from '../../approvals/shownPart.ts'
import { VaultError } from '../../errors/error.ts'
import type { Records } from '../../ports/records.ts'
import { ownerWriteRequest, scopeRequest, writeRequest } from '../../requests/agentRequests.ts'
import type { InputOf } from '../../requests/request.ts'
import {
  assertFits,
  type Credential,
  type CredentialSettings,
  parseCredentialSettings,
  plainHttpWarnings,
} from '../../secrets/credential.ts'
import { parseScope } from '../../storage/records/scopes.ts'
import { accountOn } from '../chainOf.ts'
import { hashOf } from '../hashOf.ts'
import type { VaultParts } from '../parts.ts'
import { type Plan, withoutMoney } from '../plan.ts'
import type { VaultCall } from '../vaultCall.ts'

const credentials = 'credentials.api.'

/** `POST /v1/vault/read` `{scope, agent_name}` → `{value}`. A wallet's value is its address. */
export function planRead(x: VaultCall, parts: VaultParts): Plan {
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
  // A stranger who has a page's session for a moment must not leave with the secrets.
  if (x.who.kind === 'owner' && x.via !== 'socket')
    throw new VaultError(
      'OWNER_REQUIRED',
      "Expected the owner's socket to read a stored value: tollgate vault get, on this machine. A session of the page can store and delete values, and can't read them.",
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
          'This hands out the credential itself. The agent can use it anywhere, without the vault, from then on.',
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
 * `POST /v1/vault/write` `{scope, value, agent_name}` → `{scope, created, version}`. The owner may say with a credential
 * how it is used: `settings` `{inject?, rules?, allow_private?}`.
 */
export function planWrite(x: VaultCall, parts: VaultParts): Plan {
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
      `${exists ? 'Replace' : 'Store'} the value of ${scope} by a text of ${value.length} characters that the agent sent.`,
    ],
    warnings: exists ? ['The value that is there now will be gone.'] : [],
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
    ...(isUseless ? [`No call may use ${scope} yet: no server is named that it is for (--origin).`] : []),
  ]
}

/** Stores a value; of a credential, what is not said stays as it was. */
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
export function planDelete(x: VaultCall, parts: VaultParts): Plan {
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
    warnings: ['It will be gone for good.'],
    requestHash: hash,
    frozenHash: hash,
    repeat: 'new',
    act: async () => {
      assertUnchanged(x, records, scope)
      return { status: 200, body: { deleted: await deleteValue(records, scope) } }
    },
  }
}

/** What is stored now, for the owner to see before it goes; nothing where nothing is. */
const storedPart = (records: Records, scope: string, title: string): PartDraft[] =>
  versionOf(records, scope) === null
    ? []
    : [{ title, content: storedValue(records, scope), by: 'vault', isSecret: true }]

/** Names what is stored; null where nothing is. Versions begin anew after a deletion, so the time belongs to it. */
function versionOf(records: Records, scope: string): string | null {
  const info = infoOf(records, scope)
  return info === undefined ? null : `${info.version} of ${info.updatedAt}`
}

/** The owner agreed to lose the value that was shown, not one that was stored meanwhile. @throws `APPROVAL_RESOLVED` */
function assertUnchanged({ approval }: VaultCall, records: Records, scope: string): void {
  const shown = (approval?.frozen as { version?: string | null } | null | undefined)?.version
  if (shown !== undefined && shown !== versionOf(records, scope))
    throw new VaultError(
      'APPROVAL_RESOLVED',
      `${scope} is not what it was when the owner was asked. Ask again.`,
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
      'scope: Expected a value; wallets and what agents may do with the vault are none.',
    )
}
