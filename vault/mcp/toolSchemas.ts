import type { Tool } from '../operations/operation.ts'
import { keyRequest } from '../requests/agentRequests.ts'
import { agentRequest } from '../requests/request.ts'
import { choice, type Field, text, wholeNumber } from '../requests/schema.ts'

/** Maximum time that a call waits for the owner, in seconds. */
const LONGEST_WAIT_SECONDS = 120

/** Fields of tools that may need the owner's approval. They are added to the operation's own fields. */
export const waiting = agentRequest({
  'wait_seconds?': wholeNumber(0, LONGEST_WAIT_SECONDS, '0 to 120. Default 25.'),
})
const purpose = text('Why you need it. The owner sees this text.')

/**
 * The input schema that clients see. It has the operation's own fields and the common fields of its kind.
 *
 * @param chains the chains that the vault offers
 */
export function inputSchemaOf({ input, mayAsk, changes }: Tool, chains: readonly string[]): ListedSchema {
  const { chain } = input.properties as { chain?: Field }
  const { required } = input
  const fields = {
    ...input.properties,
    ...(chain && { chain: choice(chains) }),
    ...(mayAsk && { purpose, ...waiting.schema.properties }),
    ...(mayAsk && changes && keyRequest.schema.properties),
  }
  return {
    type: 'object',
    properties: listedFields(fields),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  }
}

/**
 * The output schema that clients see. No field is required and others may be present, because a tool can also return a pending
 * approval or an error. The server's instructions describe both.
 */
export const outputSchemaOf = ({ result }: Tool): ListedSchema => ({
  type: 'object',
  properties: listedFields(result.properties as Record<string, Field>),
})

/** A schema that every model API accepts: one type, no limits, no alternatives, no references. */
export interface ListedSchema {
  readonly type: string
  readonly description?: string
  readonly enum?: readonly string[]
  readonly items?: ListedSchema
  readonly properties?: Readonly<Record<string, ListedSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: false
}

/**
 * A field's schema in the list of tools. If the vault accepts several types, the list has only the string, which is the exact
 * form of an amount or the JSON of an object. The vault enforces limits, and its errors name them.
 */
function listedSchema(field: Field): ListedSchema {
  const { type, description, enum: values, items, properties } = field
  const types = [type].flat() as string[]
  return {
    type: types.includes('string') ? 'string' : types[0]!,
    ...(typeof description === 'string' && { description }),
    ...(values !== undefined && { enum: values as readonly string[] }),
    ...(items !== undefined && { items: listedSchema(items as Field) }),
    ...(properties !== undefined && { properties: listedFields(properties as Record<string, Field>) }),
  }
}

const listedFields = (fields: Readonly<Record<string, Field>>): Record<string, ListedSchema> =>
  Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, listedSchema(field)]))
