import type { Operation } from './operation.ts'
import type { RouteAnswer, Tool } from './tool.ts'
import { failed, type ToolResult, told, toldOfOthers } from './toolResult.ts'

/** Where the client can't send a header, such as right after it got the key here. */
const apiKey = {
  type: 'string',
  minLength: 1,
  maxLength: 200,
  description: 'Your store’s API key; only where your client can not send it as Authorization: Bearer.',
}

type Words = Pick<Tool, 'name' | 'title' | 'description' | 'hints'>

/** A tool that is a route of the API: what it takes, its limits and its answers are the route's own. */
export function operationTool(
  words: Words,
  operation: Operation,
  { hasWordsOfOthers = false }: { readonly hasWordsOfOthers?: boolean } = {},
): Tool {
  const { input, output, needsKey } = operation
  return {
    ...words,
    input: needsKey ? { ...input, properties: { ...input.properties, apiKey } } : input,
    output,
    async run({ apiKey: given, ...args }, { ask }) {
      const request = operation.requestOf(args)
      const key = needsKey && given !== undefined ? { authorization: `Bearer ${given}` } : {}
      return resultOf(await ask({ ...request, headers: { ...request.headers, ...key } }), hasWordsOfOthers)
    },
  }
}

/** An answer of a route as a result, without the envelope. */
export function resultOf({ status, headers, body }: RouteAnswer, hasWordsOfOthers = false): ToolResult {
  if (status >= 400) return failed(body, Number(headers['retry-after']) || undefined)
  const { success, data } = body as { success?: boolean; data?: object }
  const plain = success === true ? data! : (body as object)
  return hasWordsOfOthers ? toldOfOthers(plain) : told(plain)
}
