import type { VaultAnswer, VaultOperation } from '../../core/plugin/vault.ts'
import { auditQueryOf } from '../host/activity.ts'
import type { OwnerContext, RequestContext } from '../host/caller.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import { activityQuery } from '../requests/agentRequests.ts'
import {
  agentChange,
  approvalsQuery,
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

/** What a route needs of its request. */
export interface RouteInput {
  /** What stands at the `:id` or `:chain` of the path; empty where there is none. */
  readonly name: string
  /** Each field of the query once; whole numbers as numbers. */
  readonly query: () => Readonly<Record<string, unknown>>
  /** Reads the body; only routes that take one call it. */
  readonly body: () => Record<string, unknown>
  readonly context: RequestContext
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** A segment that begins with `:` stands for any one segment. */
  readonly path: string
  /** Who is let through before anything of the request is read; the operation itself asks again. */
  readonly who?: 'owner' | 'anyone'
  /** Whether the same request under the same Idempotency-Key is done once; elsewhere a key is refused. */
  readonly keepsKey?: true
  readonly run: (api: VaultApi, input: RouteInput) => VaultAnswer | Promise<VaultAnswer>
}

type Run<Body> = (
  api: VaultApi,
  input: Omit<RouteInput, 'body'> & { readonly body: Body },
) => object | Promise<object>

const base = '/v1/vault'

/** A route whose answer is what `run` gives. */
const route = (method: Route['method'], path: string, run: Run<RouteInput['body']>, status = 200): Route => ({
  method,
  path,
  run: async (api, input) => ({ status, body: { ...(await run(api, input)) } }),
})

/** A route whose body passes the check of its request before anything is done. */
const takes = <T>(
  method: Route['method'],
  path: string,
  request: Request<T>,
  run: Run<T>,
  status = 200,
): Route =>
  route(method, path, (api, input) => run(api, { ...input, body: request.check(input.body()) }), status)

/** A route of the pipeline, which checks the request by the operation's own schema. */
const operation = (path: string, name: VaultOperation): Route => ({
  method: 'POST',
  path: `${base}/${path}`,
  keepsKey: true,
  run: (api, { body, context }) => api.request(name, body(), context),
})

/** Paths below which everything is the owner's. */
const ownersOwn =
  /^\/v1\/vault\/(?:agents|policies|pairings|owner|activity\/verify|approvals\/:id\/(?:approve|deny))(?:\/|$)/

/** Its credential is the link's code. */
const signInPath = `${base}/owner/sign-in`

const all: readonly Route[] = [
  route('GET', '/health', () => ({ status: 'ok' })),
  route('GET', '/v1/capabilities', (api, { context }) => api.capabilities(context.caller.via)),
  {
    method: 'GET',
    path: '/address/:chain',
    run: (api, { name, context }) => api.request('get_address', { chain: name }, context),
  },
  operation('read', 'vault_read'),
  operation('sign', 'vault_sign_tx'),
  operation('write', 'vault_write'),
  operation('delete', 'vault_delete'),
  operation('sign-message', 'vault_sign_message'),
  operation('sign-typed-data', 'vault_sign_typed_data'),
  // As the document's own vault spells them.
  operation('sign_message', 'vault_sign_message'),
  operation('sign_typed_data', 'vault_sign_typed_data'),
  operation('sign-payment', 'vault_sign_x402'),
  operation('preview', 'vault_preview'),
  operation('call', 'vault_call'),

  takes('POST', `${base}/unlock`, unlockRequest, (api, { body, context }) =>
    api.unlock(body.password, context),
  ),
  route('POST', `${base}/lock`, (api, { context }) => api.lock(context)),
  route('GET', `${base}/status`, (api, { context }) => statusOf(api, context)),
  route('GET', `${base}/scopes`, (api, { context }) => api.scopes(context)),
  route('GET', `${base}/assets`, (api, { context }) => api.assets(context)),
  route('GET', `${base}/budget`, (api, { query, context }) => {
    const { agent } = query()
    return api.budget(context, agent === undefined ? undefined : String(agent))
  }),
  route('POST', `${base}/budget/check`, (api, { body, context }) => api.checkBudget(body(), context)),
  route('GET', `${base}/activity`, (api, { query, context }) =>
    api.activity(auditQueryOf(activityQuery.check(query())), context),
  ),
  route('GET', `${base}/activity/verify`, (api, { context }) => api.verifyActivity(context)),

  route('GET', `${base}/approvals`, (api, { query, context }) =>
    api.approvals.list(context, approvalsQuery.check(query())),
  ),
  route('GET', `${base}/approvals/:id`, (api, { name, context }) => api.approvals.get(name, context)),
  takes('POST', `${base}/approvals/:id/approve`, approveRequest, (api, { name, body, context }) =>
    api.approvals.approve(name, body.decision_hash, context, body.second_word),
  ),
  route('POST', `${base}/approvals/:id/deny`, (api, { name, context }) => api.approvals.deny(name, context)),
  route('POST', `${base}/approvals/:id/cancel`, (api, { name, context }) =>
    api.approvals.cancel(name, context),
  ),

  route('GET', `${base}/agents`, (api, { context }) => api.agents.list(context)),
  takes(
    'POST',
    `${base}/agents`,
    newAgentRequest,
    (api, { body, context }) => {
      const { name, scopes, requests_per_minute: rate } = body
      return api.agents.add({ name, scopes, ...(rate !== undefined && { requestsPerMinute: rate }) }, context)
    },
    201,
  ),
  takes('PATCH', `${base}/agents/:id`, agentChange, (api, { name, body, context }) => {
    const { scopes, requests_per_minute: rate, suspended } = body
    const change = {
      ...(scopes !== undefined && { scopes }),
      ...(rate !== undefined && { requestsPerMinute: rate }),
      ...(suspended !== undefined && { suspended }),
    }
    return api.agents.update(name, change, context)
  }),
  route('POST', `${base}/agents/:id/rotate`, (api, { name, context }) => api.agents.rotate(name, context)),
  route('POST', `${base}/agents/:id/revoke`, (api, { name, context }) => api.agents.revoke(name, context)),

  route('GET', `${base}/policies`, (api, { context }) => api.policies.list(context)),
  route('POST', `${base}/policies/reset-day`, (api, { context }) => api.policies.resetDay(context)),
  route('GET', `${base}/policies/:id`, (api, { name, context }) => api.policies.get(name, context)),
  route('PUT', `${base}/policies/:id`, (api, { name, body, context }) =>
    api.policies.set(name, body(), context),
  ),
  route('DELETE', `${base}/policies/:id`, (api, { name, context }) => api.policies.delete(name, context)),

  // What is done with keys themselves: the host takes it from the owner's socket only.
  route('GET', `${base}/owner/keys`, (api, { context }) => api.custody.list(context)),
  takes('POST', `${base}/owner/keys/derive`, deriveRequest, (api, { body, context }) =>
    api.custody.derive(body, context),
  ),
  takes('POST', `${base}/owner/keys/use`, keyRequest, (api, { body, context }) =>
    api.custody.use(body, context),
  ),
  takes('POST', `${base}/owner/keys/import`, importKeyRequest, (api, { body, context }) =>
    api.custody.importKey(body, context),
  ),
  takes('POST', `${base}/owner/keys/export`, exportKeyRequest, (api, { body, context }) =>
    api.custody.exportKey(body, context),
  ),
  takes('POST', `${base}/owner/mnemonic/import`, mnemonicRequest, (api, { body, context }) =>
    api.custody.importMnemonic(body, context),
  ),
  takes('POST', `${base}/owner/mnemonic/export`, passwordRequest, (api, { body, context }) =>
    api.custody.exportMnemonic(body, context),
  ),
  takes('POST', `${base}/owner/password`, newPasswordRequest, (api, { body, context }) =>
    api.custody.changePassword(body, context),
  ),
  takes('POST', `${base}/owner/backup`, backupRequest, (api, { body, context }) =>
    api.custody.backup(body, context),
  ),

  route('GET', `${base}/pairings`, (api, { context }) => api.pairings.list(context)),
  takes(
    'POST',
    `${base}/pairings`,
    pairingRequest,
    (api, { body, context }) => api.pairings.create(body, context),
    201,
  ),
  route('POST', `${base}/pairings/rotate-key`, (api, { context }) => api.pairings.rotateKey(context)),
  takes('PATCH', `${base}/pairings/:id`, pairingChange, (api, { name, context }) =>
    api.pairings.resume(name, context),
  ),
  route('POST', `${base}/pairings/:id/confirm`, (api, { name, context }) =>
    api.pairings.confirm(name, true, context),
  ),
  route('POST', `${base}/pairings/:id/refuse`, (api, { name, context }) =>
    api.pairings.confirm(name, false, context),
  ),
  route('POST', `${base}/pairings/:id/revoke`, (api, { name, context }) =>
    api.pairings.revoke(name, context),
  ),

  route('POST', `${base}/owner/sessions`, (api, { context }) => api.createOwnerSession(context), 201),
  route('DELETE', `${base}/owner/sessions`, (api, { context }) => api.page.signOut(context)),
  route('POST', `${base}/owner/links`, (api, { context }) => api.page.link(context), 201),
  takes(
    'POST',
    signInPath,
    signInRequest,
    (api, { body, context }) => api.page.signIn(body.code, context),
    201,
  ),
]

/** What says how to ask, and that somebody answers; also for HEAD, and for whoever shows no credential. */
export const isOpenPath = (path: string): boolean => path === '/health' || path === '/v1/capabilities'

/** Every route of the vault. The password is the credential of unlocking, the link's code the one of signing in. */
export const routes: readonly Route[] = all.map((one) => {
  if (one.path === `${base}/unlock` || one.path === signInPath || isOpenPath(one.path))
    return { ...one, who: 'anyone' }
  return ownersOwn.test(one.path) ? { ...one, who: 'owner' } : one
})

/** Whether it is open, and for how long; for whoever the vault knows. */
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
