import { keyRequest } from '../requests/agentRequests.ts'
import { agentRequest } from '../requests/request.ts'
import { choice, type Field, text, wholeNumber } from '../requests/schema.ts'
import { type ListedSchema, listedFields } from './listedSchema.ts'
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

/** What tools that may ask the owner take beside the operation's own fields. */
export const waiting = agentRequest({
  'wait_seconds?': wholeNumber(0, LONGEST_WAIT_SECONDS, '0 to 120, default 25.'),
})
const purpose = text('For the owner.')

/**
 * The input schema that clients see: the operation's own fields and those of every tool of its kind.
 *
 * @param chains the chains that the vault offers
 */
export function inputSchemaOf({ input, mayAsk, takesKey }: Tool, chains: readonly string[]): ListedSchema {
  const { chain } = input.properties as { chain?: Field }
  const { required } = input
  const fields = {
    ...input.properties,
    ...(chain && { chain: choice(chains) }),
    ...(mayAsk && { purpose, ...waiting.schema.properties }),
    ...(takesKey && keyRequest.schema.properties),
  }
  return {
    type: 'object',
    properties: listedFields(fields),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  }
}

/**
 * The output schema that clients see. No field is required and others may come, because instead of its result a tool can
 * tell that the owner is asked, or what went wrong; both are described once, in the server's instructions.
 */
export const outputSchemaOf = ({ result }: Tool): ListedSchema => ({
  type: 'object',
  properties: listedFields(result.properties as Record<string, Field>),
})
