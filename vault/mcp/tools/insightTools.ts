import { questionKinds } from '../../../core/plugin/vault.ts'
import { approvalStates } from '../../approvals/approval.ts'
import { auditQueryOf } from '../../host/activity.ts'
import {
  activityRequest,
  addressRequest,
  approvalRequest,
  bareRequest,
  budgetRequest,
} from '../../requests/agentRequests.ts'
import { anyObject, boolean, choice, list, object, text, textOrNull } from '../../requests/schema.ts'
import { readsOnly, type Tool } from '../tool.ts'

const plain = { mayAsk: false, takesKey: false } as const

/** Tools that tell: addresses, grants, budgets, questions to the owner, what happened. */
export const insightTools = {
  address: {
    name: 'vault_get_address',
    title: 'Get a wallet address',
    description:
      'Gives the address of the wallet on a chain: where to receive money, and what to put as sender into a ' +
      'transaction before it is signed.',
    input: addressRequest.schema,
    result: object({ address: text('0x… or base58.'), chain: text('The chain.') }),
    hints: readsOnly,
    ...plain,
    mayAsk: true,
    run: (api, input, context) => api.request('get_address', input, context),
  },
  scopes: {
    name: 'vault_list_scopes',
    title: 'List granted scopes',
    description:
      'Lists what this agent may use: scopes, what may be done with each (read, write, call, sign, address), and ' +
      'whether the owner is asked every time (ask) or the owner’s rules decide (rules). Call it first.',
    input: bareRequest.schema,
    result: object({
      scopes: list(
        object({
          scope: text('Exact, or a prefix of whole segments that ends in .*'),
          verb: text('read, write, call, sign or address.'),
          approval: choice(['ask', 'rules'], 'Who decides.'),
        }),
        'One entry a grant.',
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
    title: 'Check a payment against the budget',
    description:
      'Tells whether a payment of this amount would fit into the limits now, and what this agent has used today. ' +
      'Nothing is reserved: another payment may come first. Amounts of budget lines are in smallest units.',
    input: budgetRequest.schema,
    result: object({
      ok: boolean('True when it fits.'),
      code: textOrNull('The error that it would be refused with.'),
      details: { description: 'Which limit, and what is left of it.' },
      budget: list(
        object({
          asset: text("CAIP-19 id of the asset; with /fees at its end, what goes to the chain's network."),
          spent: text('Spent today.'),
          reserved: text('Held back for requests that wait for the owner.'),
          per_transaction: textOrNull('Most for one transaction.'),
          per_day: textOrNull('Most for one day.'),
          resets_at: text('When the day ends.'),
        }),
        'One line an asset.',
      ),
    }),
    hints: readsOnly,
    ...plain,
    run: (api, input, context) => ok({ ...api.checkBudget(input, context), ...api.budget(context) }),
  },
  approval: {
    name: 'vault_approval_status',
    title: 'Look at a question to the owner',
    description:
      'Tells what became of a question to the owner, by the approval_id of a pending result. When it is approved, call ' +
      'the tool that asked once more with the same arguments: only then is the thing done and its result given. ' +
      'Nobody but the owner can approve.',
    input: approvalRequest.schema,
    result: object({
      id: text('The approval.'),
      status: choice(approvalStates, 'approved: call again. consumed: done already.'),
      agent: text('This agent.'),
      operation: text('What was asked for.'),
      kind: choice(questionKinds, 'What the owner was asked about.'),
      parts: list(
        anyObject('{title, text, format, bytes, sha256}'),
        'What you sent, as the owner was shown it.',
      ),
      second_word: textOrNull('Always null: it is between the owner and the vault.'),
      scope: textOrNull('The scope.'),
      chain: textOrNull('The chain.'),
      amount: textOrNull('The amount in whole units.'),
      currency: textOrNull('Its currency.'),
      recipient: textOrNull('Who gets it.'),
      effects: list({ type: 'string' }, 'What the owner was shown.'),
      warnings: list({ type: 'string' }, 'What the owner was warned of.'),
      reasons: list({ type: 'string' }, 'Why the owner was asked.'),
      opaque: boolean('True when a part was not understood.'),
      purpose: textOrNull('Your own words about it.'),
      decision_hash: text('What the answer is bound to.'),
      created_at: text('ISO 8601.'),
      expires_at: text('ISO 8601.'),
      decided_at: textOrNull('ISO 8601.'),
      decided_by: textOrNull('Who decided.'),
    }),
    hints: readsOnly,
    ...plain,
    run(api, input, context) {
      const view = api.approvals.get(approvalRequest.check(input).approval_id, context)
      // What tells questions apart is for the owner's eyes.
      const { from: _, nonce: _nonce, asked_before: _before, first_time: _first, ...told } = view
      return ok(told)
    },
  },
  activity: {
    name: 'vault_activity',
    title: 'Look at past requests',
    description:
      'Lists what this agent asked for and what became of it, newest first. Look here when a connection broke and you ' +
      'do not know whether something was done, before you do it again.',
    input: activityRequest.schema,
    result: object({
      events: list(
        object({
          timestamp: text('ISO 8601.'),
          agent: text('This agent.'),
          action: text('What was asked for.'),
          amount: { type: 'number', description: '0 where no money was asked for.' },
          currency: text('Empty where no money was asked for.'),
          status: text('What became of it.'),
          'claimed?': text('Where it was refused: what you said that it does.'),
          'found?': text('And what its bytes do.'),
        }),
        'Newest first.',
      ),
      'cursor?': text('There is more: give it to get the next page.'),
    }),
    hints: readsOnly,
    ...plain,
    async run(api, input, context) {
      return ok(await api.activity(auditQueryOf(activityRequest.check(input)), context))
    },
  },
  lock: {
    name: 'vault_lock',
    title: 'Lock the vault',
    description:
      'Locks the vault for every agent at once, until the owner opens it again with the password. For emergencies: ' +
      'nothing can be signed or read after it, and you can not take it back. Needs the scope vault.lock.',
    input: bareRequest.schema,
    result: object({ locked: boolean('True.') }),
    hints: { readOnly: false, destructive: true, idempotent: true, openWorld: false },
    ...plain,
    async run(api, input, context) {
      bareRequest.check(input)
      return ok(await api.lock(context))
    },
  },
} satisfies Record<string, Tool>

const ok = (body: object) => ({ status: 200, body: { ...body } })
