import { type ObjectSchema, type OutputSchema, object, text, wholeNumber } from './schema.ts'
import type { Tool } from './tool.ts'
import { insightTools } from './tools/insightTools.ts'
import { signingTools } from './tools/signingTools.ts'
import { valueTools } from './tools/valueTools.ts'

/** Longest that a call may wait for the owner, in seconds. */
export const longestWaitSeconds = 120

/**
 * Every tool, in the order in which agents see them: first what tells, then what does. There is none to unlock the vault,
 * to approve, or to change what agents may do: those are the owner's, who does not come this way.
 *
 * @param chains the chains that the vault offers
 */
export function toolTable(chains: readonly string[]): readonly Tool[] {
  const { address, scopes, budget, approval, activity, lock } = insightTools(chains)
  const [preview, ...signing] = signingTools(chains)
  const [read, write, call] = valueTools
  return [address, scopes, budget, preview!, read!, write!, ...signing, call!, approval, activity, lock]
}

/** The input schema that clients see: the operation's own fields and those of every tool of its kind. */
export function inputSchemaOf({ input, mayAsk, takesKey }: Tool): ObjectSchema {
  const shared = object({
    ...(mayAsk && {
      'purpose?': text('Why you want it, in a sentence. The owner reads it when asked.', 500),
      'wait_seconds?': wholeNumber(
        0,
        longestWaitSeconds,
        'How long to wait when the owner has to be asked. Default 25; then the result is pending.',
      ),
    }),
    ...(takesKey && {
      'idempotency_key?': text(
        'A name of your own for this one request, 1 to 128 visible characters: repeated under it, it is done once.',
        128,
      ),
    }),
  })
  return { ...input, properties: { ...input.properties, ...shared.properties } }
}

const pending = object({
  status: { const: 'pending', description: 'The owner is asked and has not answered yet.' },
  approval_id: text('The question, for vault_approval_status.'),
  expires_at: text('ISO 8601: until then the owner can answer.'),
  next: text('How to go on.'),
})

const failure = object({
  error: object({
    code: text('What went wrong, as a code.'),
    message: text('What was expected and what came.'),
    'action?': text('What to do about it.'),
    retryable: { type: 'boolean', description: 'True when the same call may succeed later.' },
    'retry_after_seconds?': wholeNumber(0, Number.MAX_SAFE_INTEGER, 'When it makes sense to try again.'),
    'details?': { description: 'Fields, limits, ids.' },
  }),
})

/** The output schema that clients see. Errors are in it because some clients check their structure, too. */
export const outputSchemaOf = ({ result, mayAsk }: Tool): OutputSchema => ({
  type: 'object',
  anyOf: mayAsk ? [result, pending, failure] : [result, failure],
})
