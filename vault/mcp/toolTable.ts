import { request } from '../requests/request.ts'
import {
  choice,
  type ObjectSchema,
  type OutputSchema,
  object,
  text,
  wholeNumber,
} from '../requests/schema.ts'
import type { Tool } from './tool.ts'
import { insightTools } from './tools/insightTools.ts'
import { signingTools } from './tools/signingTools.ts'
import { valueTools } from './tools/valueTools.ts'

/** Longest that a call may wait for the owner, in seconds. */
export const LONGEST_WAIT_SECONDS = 120

/**
 * Every tool, in the order in which agents see them: first what tells, then what does. There is none to unlock the vault,
 * to approve, or to change what agents may do: those are the owner's, who does not come this way.
 */
const { address, scopes, budget, approval, activity, lock } = insightTools
const { preview, transaction, message, typedData, payment } = signingTools
const { read, write, call } = valueTools
export const toolTable: readonly Tool[] = [
  address,
  scopes,
  budget,
  preview,
  read,
  write,
  transaction,
  message,
  typedData,
  payment,
  call,
  approval,
  activity,
  lock,
]

/** What tools that may ask the owner, and tools that do something once, take beside the operation's own fields. */
export const waiting = request({
  'wait_seconds?': wholeNumber(
    0,
    LONGEST_WAIT_SECONDS,
    'How long to wait when the owner has to be asked. Default 25; then the result is pending.',
  ),
})
export const once = request({
  'idempotency_key?': text(
    'A name of your own for this one request, 1 to 128 visible characters: repeated under it, it is done once.',
    128,
  ),
})
const purpose = text('Why you want it, in a sentence. The owner reads it when asked.', 500)

/**
 * The input schema that clients see: the operation's own fields and those of every tool of its kind.
 *
 * @param chains the chains that the vault offers
 */
export function inputSchemaOf({ input, mayAsk, takesKey }: Tool, chains: readonly string[]): ObjectSchema {
  const { chain } = input.properties as { chain?: { description: string } }
  return {
    ...input,
    properties: {
      ...input.properties,
      ...(chain && { chain: choice(chains, chain.description) }),
      ...(mayAsk && { purpose, ...waiting.schema.properties }),
      ...(takesKey && once.schema.properties),
    },
  }
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
