import type { VaultOperation } from '../../core/plugin/vault.ts'
import { type ApprovalState, approvalStates } from '../approvals/approval.ts'
import { VaultError } from '../errors/error.ts'
import { readActivityQuery } from '../host/activity.ts'
import { readFields } from '../host/fields.ts'
import type { OwnerContext, RequestContext } from '../host/requestContext.ts'
import type { VaultApi } from '../host/vaultApi.ts'

/** What a route needs of its request. */
export interface RouteInput {
  /** What stands at the `:names` of the path. */
  readonly params: readonly string[]
  readonly query: URLSearchParams
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
  readonly run: (api: VaultApi, input: RouteInput) => Answer | Promise<Answer>
}

interface Answer {
  readonly status?: number
  readonly body: object
}

const operation =
  (name: VaultOperation): Route['run'] =>
  (api, { body, context }) =>
    api.request(name, body(), context)

const ok = (body: object): Answer => ({ body })
type Owner = (api: VaultApi, input: RouteInput) => object | Promise<object>
const plain =
  (run: Owner): Route['run'] =>
  async (api, input) =>
    ok(await run(api, input))

const post = (path: string, run: Route['run']): Route => ({ method: 'POST', path, run })
const get = (path: string, run: Owner): Route => ({ method: 'GET', path, run: plain(run) })
const base = '/v1/vault'

/** What is done with keys themselves: the host takes it from the owner's socket only. */
const custody = (
  path: string,
  run: (api: VaultApi, body: object, context: OwnerContext) => Promise<object>,
): Route =>
  post(
    `${base}/owner/${path}`,
    plain((api, { body, context }) => run(api, body(), context)),
  )

/** Paths below which everything is the owner's. */
const ownersOwn =
  /^\/v1\/vault\/(?:agents|policies|pairings|owner|activity\/verify|approvals\/:id\/(?:approve|deny))(?:\/|$)/

/** Its credential is the link's code. */
const signInPath = `${base}/owner/sign-in`

const all: readonly Route[] = [
  get('/v1/capabilities', (api, { context }) => api.capabilities(context.caller.via)),
  {
    method: 'GET',
    path: '/address/:chain',
    run: (api, { params, context }) => api.request('get_address', { chain: params[0] }, context),
  },
  post(`${base}/read`, operation('vault_read')),
  post(`${base}/sign`, operation('vault_sign_tx')),
  post(`${base}/write`, operation('vault_write')),
  post(`${base}/delete`, operation('vault_delete')),
  post(`${base}/sign-message`, operation('vault_sign_message')),
  post(`${base}/sign-typed-data`, operation('vault_sign_typed_data')),
  post(`${base}/sign-payment`, operation('vault_sign_x402')),
  post(`${base}/preview`, operation('vault_preview')),
  post(`${base}/call`, operation('vault_call')),

  post(
    `${base}/unlock`,
    plain((api, { body, context }) => {
      const fields = readFields(body(), ['password'])
      const password = fields.required('password')
      fields.done()
      return api.unlock(password, context)
    }),
  ),
  post(
    `${base}/lock`,
    plain((api, { context }) => api.lock(context)),
  ),
  get(`${base}/status`, (api, { context }) => statusOf(api, context)),
  get(`${base}/scopes`, (api, { context }) => api.scopes(context)),
  get(`${base}/assets`, (api, { context }) => api.assets(context)),
  get(`${base}/budget`, (api, { query, context }) => api.budget(context, query.get('agent') ?? undefined)),
  post(
    `${base}/budget/check`,
    plain((api, { body, context }) => api.checkBudget(body(), context)),
  ),
  get(`${base}/activity`, (api, { query, context }) => api.activity(readActivityQuery(query), context)),
  get(`${base}/activity/verify`, (api, { context }) => api.verifyActivity(context)),

  get(`${base}/approvals`, (api, { query, context }) => {
    const status = query.get('status')
    if (status !== null && !approvalStates.includes(status as ApprovalState))
      throw new VaultError('VALIDATION_ERROR', `status: Expected one of ${approvalStates.join(', ')}.`)
    return api.approvals.list(context, status === null ? {} : { status: status as ApprovalState })
  }),
  get(`${base}/approvals/:id`, (api, { params, context }) => api.approvals.get(params[0]!, context)),
  post(
    `${base}/approvals/:id/approve`,
    plain((api, { params, body, context }) => {
      const fields = readFields(body(), ['decision_hash', 'second_word'])
      const hash = fields.required('decision_hash')
      const secondWord = fields.optional('second_word')
      fields.done()
      return api.approvals.approve(params[0]!, hash, context, secondWord)
    }),
  ),
  post(
    `${base}/approvals/:id/deny`,
    plain((api, { params, context }) => api.approvals.deny(params[0]!, context)),
  ),
  post(
    `${base}/approvals/:id/cancel`,
    plain((api, { params, context }) => api.approvals.cancel(params[0]!, context)),
  ),

  get(`${base}/agents`, (api, { context }) => api.agents.list(context)),
  {
    method: 'POST',
    path: `${base}/agents`,
    run: async (api, { body, context }) => {
      const fields = readFields(body(), ['name', 'scopes', 'requests_per_minute'])
      const name = fields.text('name', 64)
      const scopes = fields.required('scopes') as readonly string[]
      const rate = fields.optional('requests_per_minute') as number | null | undefined
      fields.done()
      const agent = { name, scopes, ...(rate !== undefined && { requestsPerMinute: rate }) }
      return { status: 201, body: await api.agents.add(agent, context) }
    },
  },
  {
    method: 'PATCH',
    path: `${base}/agents/:id`,
    run: plain((api, { params, body, context }) => {
      const fields = readFields(body(), ['scopes', 'requests_per_minute'])
      const scopes = fields.optional('scopes') as readonly string[] | undefined
      const rate = fields.optional('requests_per_minute') as number | null | undefined
      fields.done()
      const change = {
        ...(scopes !== undefined && { scopes }),
        ...(rate !== undefined && { requestsPerMinute: rate }),
      }
      return api.agents.update(params[0]!, change, context)
    }),
  },
  post(
    `${base}/agents/:id/rotate`,
    plain((api, { params, context }) => api.agents.rotate(params[0]!, context)),
  ),
  post(
    `${base}/agents/:id/revoke`,
    plain((api, { params, context }) => api.agents.revoke(params[0]!, context)),
  ),

  get(`${base}/policies`, (api, { context }) => api.policies.list(context)),
  get(`${base}/policies/:id`, (api, { params, context }) => api.policies.get(params[0]!, context)),
  {
    method: 'PUT',
    path: `${base}/policies/:id`,
    run: plain((api, { params, body, context }) => api.policies.set(params[0]!, body(), context)),
  },
  {
    method: 'DELETE',
    path: `${base}/policies/:id`,
    run: plain((api, { params, context }) => api.policies.delete(params[0]!, context)),
  },

  get(`${base}/owner/keys`, (api, { context }) => api.custody.list(context)),
  custody('keys/derive', (api, body, context) => api.custody.derive(body, context)),
  custody('keys/use', (api, body, context) => api.custody.use(body, context)),
  custody('keys/import', (api, body, context) => api.custody.importKey(body, context)),
  custody('keys/export', (api, body, context) => api.custody.exportKey(body, context)),
  custody('mnemonic/import', (api, body, context) => api.custody.importMnemonic(body, context)),
  custody('mnemonic/export', (api, body, context) => api.custody.exportMnemonic(body, context)),
  custody('password', (api, body, context) => api.custody.changePassword(body, context)),
  custody('backup', (api, body, context) => api.custody.backup(body, context)),

  get(`${base}/pairings`, (api, { context }) => api.pairings.list(context)),
  {
    method: 'POST',
    path: `${base}/pairings`,
    run: async (api, { body, context }) => ({
      status: 201,
      body: await api.pairings.create(body(), context),
    }),
  },
  post(
    `${base}/pairings/:id/confirm`,
    plain((api, { params, context }) => api.pairings.confirm(params[0]!, true, context)),
  ),
  post(
    `${base}/pairings/:id/refuse`,
    plain((api, { params, context }) => api.pairings.confirm(params[0]!, false, context)),
  ),
  post(
    `${base}/pairings/:id/revoke`,
    plain((api, { params, context }) => api.pairings.revoke(params[0]!, context)),
  ),
  {
    method: 'POST',
    path: `${base}/owner/sessions`,
    run: (api, { context }) => ({ status: 201, body: api.createOwnerSession(context) }),
  },
  {
    method: 'DELETE',
    path: `${base}/owner/sessions`,
    run: plain((api, { context }) => api.page.signOut(context)),
  },
  {
    method: 'POST',
    path: `${base}/owner/links`,
    run: (api, { context }) => ({ status: 201, body: api.page.link(context) }),
  },
  {
    method: 'POST',
    path: signInPath,
    run: async (api, { body, context }) => ({ status: 201, body: await api.page.signIn(body(), context) }),
  },
]

/** Every route of the vault. The password is the credential of unlocking, the link's code the one of signing in. */
export const routes: readonly Route[] = all.map((route) => {
  if (route.path === `${base}/unlock` || route.path === signInPath) return { ...route, who: 'anyone' }
  return ownersOwn.test(route.path) ? { ...route, who: 'owner' } : route
})

/** Whether it is open, and for how long; for whoever the vault knows. */
function statusOf(api: VaultApi, context: OwnerContext): object {
  const { vaultId, locked, locksAtMs, idleLocksAtMs, auditDamage, ...wait } = api.state()
  return {
    vault_id: vaultId,
    locked,
    locks_at: timeOf(locksAtMs),
    idle_locks_at: timeOf(idleLocksAtMs),
    retry_after_ms: context.caller.via === 'socket' ? wait.retryAfterMs : wait.pageRetryAfterMs,
    ...(context.caller.kind === 'owner' && { log_damage: auditDamage ?? null }),
  }
}

const timeOf = (ms: number | undefined): string | null =>
  ms === undefined ? null : new Date(ms).toISOString()
