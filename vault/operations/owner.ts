import type { OwnerContext } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import { bareRequest } from '../requests/agentRequests.ts'
import {
  agentChange,
  approveRequest,
  backupRequest,
  deriveRequest,
  exportKeyRequest,
  importKeyRequest,
  keyRequest,
  mnemonicRequest,
  newAgentRequest,
  newPasswordRequest,
  pairingChange,
  pairingRequest,
  passwordRequest,
  signInRequest,
  unlockRequest,
} from '../requests/ownerRequests.ts'
import type { Request } from '../requests/request.ts'
import { boolean, object } from '../requests/schema.ts'
import { type Endpoint, type Operation, operation, type Run, unchecked } from './operation.ts'

/** Lock state, locking and unlocking. */
export const lockOperations = [
  operation({
    at: 'GET /v1/vault/status',
    who: 'agent',
    run: (api, { context }) => statusOf(api, context),
  }),
  operation({
    at: 'POST /v1/vault/lock',
    who: 'agent',
    name: 'vault_lock',
    description: 'Lock the vault. The agent needs the scope vault.lock.',
    run: (api, { context }) => api.lock(context),
    tool: {
      description: 'For emergencies: locks the vault until the owner unlocks it. Needs the scope vault.lock.',
      result: object({ locked: boolean() }),
      changes: { repeatable: true },
    },
  }),
  // The password authenticates this operation.
  operation({
    at: 'POST /v1/vault/unlock',
    who: 'anyone',
    takes: unlockRequest,
    run: (api, { input, context }) => api.unlock(input.password, context),
  }),
]

/** Whether the vault is unlocked, and for how long. */
function statusOf(api: VaultApi, context: OwnerContext): object {
  const { vaultId, locked, lockReason, locksAtMs, idleLocksAtMs, auditDamage, ...wait } = api.state()
  return {
    vault_id: vaultId,
    locked,
    lock_reason: lockReason ?? null,
    locks_at: timeOf(locksAtMs),
    idle_locks_at: timeOf(idleLocksAtMs),
    retry_after_ms: context.caller.via === 'socket' ? wait.retryAfterMs : wait.pageRetryAfterMs,
    ...(context.caller.kind === 'owner' && {
      log_damage: auditDamage ?? null,
      warnings: api.warnings(context),
    }),
  }
}

const timeOf = (ms: number | undefined): string | null =>
  ms === undefined ? null : new Date(ms).toISOString()

/** An operation without fields, only for the owner. */
const bare = (at: Endpoint, run: Run<unknown, object>, status?: 201): Operation =>
  operation({ at, who: 'owner', run, ...(status && { status }) })

/** An operation whose fields are validated before anything is done. */
const taking = <T>(at: Endpoint, takes: Request<T>, run: Run<T, object>, status?: 201): Operation =>
  operation({ at, who: 'owner', takes, run, ...(status && { status }) })

const agents = [
  bare('GET /v1/vault/agents', (api, { context }) => api.agents.list(context)),
  taking(
    'POST /v1/vault/agents',
    newAgentRequest,
    (api, { input: { name, scopes, requests_per_minute: rate }, context }) =>
      api.agents.add({ name, scopes, ...(rate !== undefined && { requestsPerMinute: rate }) }, context),
    201,
  ),
  taking('PATCH /v1/vault/agents/:id', agentChange, (api, { name, input, context }) => {
    const { scopes, requests_per_minute: rate, suspended } = input
    const change = {
      ...(scopes !== undefined && { scopes }),
      ...(rate !== undefined && { requestsPerMinute: rate }),
      ...(suspended !== undefined && { suspended }),
    }
    return api.agents.update(name, change, context)
  }),
  bare('POST /v1/vault/agents/:id/rotate', (api, { name, context }) => api.agents.rotate(name, context)),
  bare('POST /v1/vault/agents/:id/revoke', (api, { name, context }) => api.agents.revoke(name, context)),
]

const policies = [
  bare('GET /v1/vault/policies', (api, { context }) => api.policies.list(context)),
  bare('POST /v1/vault/policies/reset-day', (api, { context }) => api.policies.resetDay(context)),
  bare('GET /v1/vault/policies/:id', (api, { name, context }) => api.policies.get(name, context)),
  taking('PUT /v1/vault/policies/:id', unchecked(bareRequest.schema), (api, { name, input, context }) =>
    api.policies.set(name, input, context),
  ),
  bare('DELETE /v1/vault/policies/:id', (api, { name, context }) => api.policies.delete(name, context)),
]

const budget = [bare('POST /v1/vault/budget/give-back', (api, { context }) => api.checkCharges(context))]

const pairings = [
  bare('GET /v1/vault/pairings', (api, { context }) => api.pairings.list(context)),
  taking(
    'POST /v1/vault/pairings',
    pairingRequest,
    (api, { input, context }) => api.pairings.create(input, context),
    201,
  ),
  bare('POST /v1/vault/pairings/rotate-key', (api, { context }) => api.pairings.rotateKey(context)),
  taking('PATCH /v1/vault/pairings/:id', pairingChange, (api, { name, context }) =>
    api.pairings.resume(name, context),
  ),
  bare('POST /v1/vault/pairings/:id/confirm', (api, { name, context }) =>
    api.pairings.confirm(name, true, context),
  ),
  bare('POST /v1/vault/pairings/:id/refuse', (api, { name, context }) =>
    api.pairings.confirm(name, false, context),
  ),
  bare('POST /v1/vault/pairings/:id/revoke', (api, { name, context }) => api.pairings.revoke(name, context)),
]

/** Operations on the keys themselves, which the host performs only on the owner's socket. */
const custody = [
  bare('GET /v1/vault/owner/keys', (api, { context }) => api.custody.list(context)),
  taking('POST /v1/vault/owner/keys/derive', deriveRequest, (api, { input, context }) =>
    api.custody.derive(input, context),
  ),
  taking('POST /v1/vault/owner/keys/use', keyRequest, (api, { input, context }) =>
    api.custody.use(input, context),
  ),
  taking('POST /v1/vault/owner/keys/import', importKeyRequest, (api, { input, context }) =>
    api.custody.importKey(input, context),
  ),
  taking('POST /v1/vault/owner/keys/export', exportKeyRequest, (api, { input, context }) =>
    api.custody.exportKey(input, context),
  ),
  taking('POST /v1/vault/owner/mnemonic/import', mnemonicRequest, (api, { input, context }) =>
    api.custody.importMnemonic(input, context),
  ),
  taking('POST /v1/vault/owner/mnemonic/export', passwordRequest, (api, { input, context }) =>
    api.custody.exportMnemonic(input, context),
  ),
  taking('POST /v1/vault/owner/password', newPasswordRequest, (api, { input, context }) =>
    api.custody.changePassword(input, context),
  ),
  taking('POST /v1/vault/owner/backup', backupRequest, (api, { input, context }) =>
    api.custody.backup(input, context),
  ),
]

/** Operations of the owner. None of them is in the capabilities, over the relay, or a tool. */
export const ownerOperations = [
  // The code of the link authenticates this operation.
  operation({
    at: 'POST /v1/vault/owner/sign-in',
    who: 'anyone',
    takes: signInRequest,
    status: 201,
    run: (api, { input, context }) => api.page.signIn(input.code, context),
  }),
  bare('POST /v1/vault/owner/links', (api, { context }) => api.page.link(context), 201),
  bare('POST /v1/vault/owner/sessions', (api, { context }) => api.createOwnerSession(context), 201),
  bare('DELETE /v1/vault/owner/sessions', (api, { context }) => api.page.signOut(context)),
  bare('GET /v1/vault/activity/verify', (api, { context }) => api.verifyActivity(context)),
  taking('POST /v1/vault/approvals/:id/approve', approveRequest, (api, { name, input, context }) =>
    api.approvals.approve(name, input.decision_hash, context, input.second_word),
  ),
  bare('POST /v1/vault/approvals/:id/deny', (api, { name, context }) => api.approvals.deny(name, context)),
  ...agents,
  ...policies,
  ...budget,
  ...pairings,
  ...custody,
]
