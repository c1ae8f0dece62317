import { approvalStates } from '../../approvals/approval.ts'
import { auditQueryOf } from '../../host/activity.ts'
import {
  activityRequest,
  addressRequest,
  approvalRequest,
  bareRequest,
  budgetRequest,
} from '../../requests/agentRequests.ts'
import { boolean, list, object, text } from '../../requests/schema.ts'
import { readsOnly, type Tool } from '../tool.ts'

const plain = { mayAsk: false, takesKey: false } as const

/** Tools that tell: addresses, grants, budgets, questions to the owner, what happened. */
export const insightTools = {
  address: {
    name: 'vault_get_address',
    description:
      'The address of the wallet on a chain: where to receive money, and the sender of a transaction.',
    input: addressRequest.schema,
    result: object({ address: text(), chain: text() }),
    hints: readsOnly,
    ...plain,
    mayAsk: true,
    run: (api, input, context) => api.request('get_address', input, context),
  },
  scopes: {
    name: 'vault_list_scopes',
    description:
      'Call it first: what this agent may use. verb: read, write, call, sign or address. approval: ask (the owner is asked ' +
      'each time) or rules (the owner’s rules decide).',
    input: bareRequest.schema,
    result: object({
      scopes: list(
        object({
          scope: text(),
          verb: text(),
          approval: text(),
        }),
      ),
    }),
    hints: readsOnly,
    ...plain,
    run(api, input, context) {
      bareRequest.check(input)
      return ok(api.scopes(context))
    },
  },
  budget: {
    name: 'vault_budget_check',
    description:
      'Whether a payment would fit into the limits now, and what was used today, in smallest units; an asset that ends in ' +
      '/fees is what goes to the network. Reserves nothing.',
    input: budgetRequest.schema,
    result: object({
      ok: boolean(),
      code: text(),
      budget: list(
        object({
          asset: text(),
          spent: text(),
          reserved: text(),
          per_transaction: text(),
          per_day: text(),
          resets_at: text(),
        }),
      ),
    }),
    hints: readsOnly,
    ...plain,
    run: (api, input, context) => ok({ ...api.checkBudget(input, context), ...api.budget(context) }),
  },
  approval: {
    name: 'vault_approval_status',
    description:
      'What became of a question to the owner. approved: call the same tool again with the same arguments to have it done and ' +
      'get its result. consumed: done already.',
    input: approvalRequest.schema,
    result: object({
      id: text(),
      status: text(approvalStates.join(', ')),
      effects: list(text()),
      warnings: list(text()),
      reasons: list(text()),
      expires_at: text(),
      decided_by: text(),
    }),
    hints: readsOnly,
    ...plain,
    run(api, input, context) {
      const view = api.approvals.get(approvalRequest.check(input).approval_id, context)
      // What tells questions apart, and how they are approved, is for the owner's eyes.
      const {
        from: _,
        nonce: _nonce,
        asked_before: _before,
        first_time: _first,
        approve_command: _command,
        ...told
      } = view
      return ok(told)
    },
  },
  activity: {
    name: 'vault_activity',
    description:
      'What this agent asked for and what became of it, newest first. When a connection broke, look here before you do ' +
      'something again.',
    input: activityRequest.schema,
    result: object({
      events: list(
        object({
          timestamp: text(),
          action: text(),
          amount: { type: 'number' },
          currency: text(),
          status: text(),
          claimed: text(),
          found: text(),
        }),
      ),
      cursor: text(),
    }),
    hints: readsOnly,
    ...plain,
    async run(api, input, context) {
      return ok(await api.activity(auditQueryOf(activityRequest.check(input)), context))
    },
  },
  lock: {
    name: 'vault_lock',
    description:
      'For emergencies: locks the vault for every agent until the owner opens it with the password. Needs the scope vault.lock.',
    input: bareRequest.schema,
    result: object({ locked: boolean() }),
    hints: { readOnly: false, destructive: true, idempotent: true, openWorld: false },
    ...plain,
    async run(api, input, context) {
      bareRequest.check(input)
      return ok(await api.lock(context))
    },
  },
} satisfies Record<string, Tool>

const ok = (body: object) => ({ status: 200, body: { ...body } })
