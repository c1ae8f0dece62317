import { questionKinds } from '../../../core/plugin/vault.ts'
import { approvalStates } from '../../approvals/approval.ts'
import { VaultError } from '../../errors/error.ts'
import { readActivityQuery } from '../../host/activity.ts'
import { readFields } from '../../host/fields.ts'
import { auditActions, auditStatuses } from '../../ports/audit.ts'
import { amount, anyObject, boolean, choice, list, object, text, textOrNull, wholeNumber } from '../schema.ts'
import { readsOnly, type Tool } from '../tool.ts'

const plain = { mayAsk: false, takesKey: false } as const
const nothing = object({})

/** Tools that tell: addresses, grants, budgets, questions to the owner, what happened. */
export const insightTools = (chains: readonly string[]) => {
  const chain = choice(chains, 'The chain.')
  return {
    address: {
      name: 'vault_get_address',
      title: 'Get a wallet address',
      description:
        'Gives the address of the wallet on a chain: where to receive money, and what to put as sender into a ' +
        'transaction before it is signed.',
      input: object({ chain }),
      result: object({ address: text('0x… or base58.'), chain: text('The chain.') }),
      hints: readsOnly,
      ...plain,
      mayAsk: true,
      run(api, input, context) {
        const fields = readFields(input, ['chain'])
        const name = fields.text('chain', 64)
        fields.done()
        return api.request('get_address', { chain: name }, context)
      },
    },
    scopes: {
      name: 'vault_list_scopes',
      title: 'List granted scopes',
      description:
        'Lists what this agent may use: scopes, what may be done with each (read, write, call, sign, address), and ' +
        'whether the owner is asked every time (ask) or the owner’s rules decide (rules). Call it first.',
      input: nothing,
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
        readFields(input, []).done()
        return ok(api.scopes(context))
      },
    },
    budget: {
      name: 'vault_budget_check',
      title: 'Check a payment against the budget',
      description:
        'Tells whether a payment of this amount would fit into the limits now, and what this agent has used today. ' +
        'Nothing is reserved: another payment may come first. Amounts of budget lines are in smallest units.',
      input: object({
        chain,
        amount: amount('The amount in whole units.'),
        'currency?': text("SOL, ETH, USDC, USDT … Left out: the chain's own coin.", 64),
        'recipient?': text('Who would get it: recipients can have limits of their own.', 128),
      }),
      result: object({
        ok: boolean('True when it fits.'),
        code: textOrNull('The error that it would be refused with.'),
        details: { description: 'Which limit, and what is left of it.' },
        budget: list(
          object({
            asset: text('CAIP-19 id of the asset.'),
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
      input: object({ approval_id: text('apr_…, of the pending result.', 64) }),
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
        const fields = readFields(input, ['approval_id'])
        const id = fields.text('approval_id', 64)
        fields.done()
        return ok(api.approvals.get(id, context))
      },
    },
    activity: {
      name: 'vault_activity',
      title: 'Look at past requests',
      description:
        'Lists what this agent asked for and what became of it, newest first. Look here when a connection broke and you ' +
        'do not know whether something was done, before you do it again.',
      input: object({
        'action?': choice(auditActions, 'Only this kind.'),
        'status?': choice(auditStatuses, 'Only what ended, or stands, like this.'),
        'scope?': text('Only this scope.', 256),
        'since?': text('ISO 8601, inclusive.', 256),
        'until?': text('ISO 8601, exclusive.', 256),
        'limit?': wholeNumber(1, 500, 'At most so many. Default 100.'),
        'cursor?': text('Of the page before.', 256),
      }),
      result: object({
        events: list(
          object({
            timestamp: text('ISO 8601.'),
            agent: text('This agent.'),
            action: text('What was asked for.'),
            amount: { type: 'number', description: '0 where no money was asked for.' },
            currency: text('Empty where no money was asked for.'),
            status: text('What became of it.'),
          }),
          'Newest first.',
        ),
        'cursor?': text('There is more: give it to get the next page.'),
      }),
      hints: readsOnly,
      ...plain,
      async run(api, input, context) {
        return ok(await api.activity(readActivityQuery(queryOf(input)), context))
      },
    },
    lock: {
      name: 'vault_lock',
      title: 'Lock the vault',
      description:
        'Locks the vault for every agent at once, until the owner opens it again with the password. For emergencies: ' +
        'nothing can be signed or read after it, and you can not take it back. Needs the scope vault.lock.',
      input: nothing,
      result: object({ locked: boolean('True.') }),
      hints: { readOnly: false, destructive: true, idempotent: true, openWorld: false },
      ...plain,
      async run(api, input, context) {
        readFields(input, []).done()
        return ok(await api.lock(context))
      },
    },
  } satisfies Record<string, Tool>
}

const ok = (body: object) => ({ status: 200, body: { ...body } })

/** The arguments as the query of `GET /v1/vault/activity`, so that both are read by the same rules. */
function queryOf(input: Readonly<Record<string, unknown>>): URLSearchParams {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(input)) {
    if (name === 'agent_name' || name === 'purpose') continue
    if (typeof value !== 'string' && typeof value !== 'number')
      throw new VaultError('VALIDATION_ERROR', `${name.slice(0, 64)}: Expected a text or a number.`)
    query.append(name, String(value))
  }
  return query
}
