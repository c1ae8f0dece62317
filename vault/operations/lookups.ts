import { approvalStates } from '../approvals/approval.ts'
import { auditQueryOf } from '../host/api/insightApi.ts'
import {
  activityQuery,
  activityRequest,
  addressRequest,
  approvalRequest,
  budgetRequest,
  previewRequest,
} from '../requests/agentRequests.ts'
import { approvalsQuery } from '../requests/ownerRequests.ts'
import { boolean, list, object, text } from '../requests/schema.ts'
import { act, agentOperation, pipelineOperation, unchecked } from './operation.ts'

/** What an agent checks before it acts: addresses, grants, budgets, and what a signature would do. */
export const lookups = [
  pipelineOperation({
    at: 'GET /address/:chain',
    name: 'get_address',
    description: 'Get the address of the wallet on a chain.',
    takes: addressRequest,
    tool: {
      name: 'vault_get_address',
      description: 'The address of the wallet on a chain, which receives money and sends transactions.',
      result: object({ address: text(), chain: text() }),
      mayAsk: true,
    },
  }),
  agentOperation({
    at: 'GET /v1/vault/scopes',
    name: 'vault_list_scopes',
    description: 'List the scopes that this agent may use.',
    run: (api, { context }) => api.scopes(context),
    tool: {
      description:
        'Call this tool first. It returns what this agent may use. verb: read, write, call, sign or address. approval: ask (the owner is asked ' +
        'each time) or rules (the owner’s rules decide).',
      result: object({ scopes: list(object({ scope: text(), verb: text(), approval: text() })) }),
    },
  }),
  agentOperation({
    at: 'GET /v1/vault/assets',
    name: 'vault_list_assets',
    description: 'List the chains and currencies that a request may name, with their decimals.',
    run: (api, { context }) => api.assets(context),
  }),
  agentOperation({
    at: 'GET /v1/vault/budget',
    name: 'vault_budget',
    description: 'Get the amounts that this agent spent today, and the limits of this agent.',
    takes: unchecked(object({ 'agent?': text() })),
    run: (api, { input: { agent }, context }) =>
      api.budget(context, agent === undefined ? undefined : String(agent)),
  }),
  agentOperation({
    at: 'POST /v1/vault/budget/check',
    name: 'vault_budget_check',
    description:
      'Check whether an amount fits the limits: {chain, amount, currency?, recipient?, agent_name}.',
    takes: unchecked(budgetRequest.schema),
    run: (api, { input, context }) => api.checkBudget(input, context),
    tool: {
      description:
        'Whether a payment fits the limits now, and what was used today, in smallest units; an asset ending in ' +
        '/fees is the network fee. Reserves nothing.',
      act: act(unchecked(budgetRequest.schema), (api, { input, context }) => ({
        ...api.checkBudget(input, context),
        ...api.budget(context),
      })),
      result: object({
        ok: boolean(),
        code: text(),
        budget: list(
          object({
            asset: text(),
            spent: text(),
            reserved: text(),
            given_back: text(),
            per_transaction: text(),
            per_day: text(),
            resets_at: text(),
          }),
        ),
      }),
    },
  }),
  pipelineOperation({
    at: 'POST /v1/vault/preview',
    name: 'vault_preview',
    description: 'Show what a signing request would do and what the owner’s rules decide. Nothing is signed.',
    takes: previewRequest,
    tool: {
      name: 'vault_preview_tx',
      description:
        'What a transaction, message or typed data (exactly one of them) would do and what the owner’s rules say: auto (signed ' +
        'at once), ask (the owner is asked) or refuse. Claim amount and currency as when signing: what is not claimed is never ' +
        'signed at once.',
      result: object({
        verdict: text(),
        code: text(),
        reasons: list(text()),
        effects: list(text()),
        warnings: list(text()),
        opaque: boolean(),
        claim_proved: boolean(),
      }),
    },
  }),
]

/** The outcome of requests: approvals and the log. */
export const outcomes = [
  agentOperation({
    at: 'GET /v1/vault/approvals',
    name: 'vault_approvals',
    description: 'List the open and past approvals of this agent.',
    takes: approvalsQuery,
    run: (api, { input, context }) => api.approvals.list(context, input),
  }),
  agentOperation({
    at: 'GET /v1/vault/approvals/:id',
    name: 'vault_approval_status',
    description: 'Get one approval.',
    run: (api, { name, context }) => api.approvals.get(name, context),
    tool: {
      description:
        'The state of an approval. approved: call the same tool again with the same arguments to have it done and ' +
        'get its result. consumed: done already.',
      act: act(approvalRequest, (api, { input: { approval_id }, context }) => {
        // Details that help the owner distinguish approvals, and the command for approving, are only for the
        // owner.
        const { from, nonce, asked_before, first_time, approve_command, ...shown } = api.approvals.get(
          approval_id,
          context,
        )
        return shown
      }),
      result: object({
        id: text(),
        status: text(approvalStates.join(', ')),
        effects: list(text()),
        warnings: list(text()),
        reasons: list(text()),
        expires_at: text(),
        decided_by: text(),
      }),
    },
  }),
  agentOperation({
    at: 'POST /v1/vault/approvals/:id/cancel',
    name: 'vault_approval_cancel',
    description: 'Cancel an open approval.',
    run: (api, { name, context }) => api.approvals.cancel(name, context),
  }),
  agentOperation({
    at: 'GET /v1/vault/activity',
    name: 'vault_activity',
    description: 'List the requests of this agent and their outcomes.',
    takes: activityQuery,
    run: (api, { input, context }) => api.activity(auditQueryOf(input), context),
    tool: {
      description:
        'What this agent requested and the outcome, newest first. Check here after a lost connection.',
      act: act(activityRequest, (api, { input, context }) => api.activity(auditQueryOf(input), context)),
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
    },
  }),
]
