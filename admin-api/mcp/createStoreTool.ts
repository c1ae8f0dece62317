import type { Operation } from './operation.ts'
import { resultOf } from './operationTool.ts'
import type { Tool } from './tool.ts'
import { told } from './toolResult.ts'

const next =
  'Sign message, exactly as it is, with the wallet; then call create_store again with the same address and chain, with message and with signature.'

/** The two steps of a sign-up in one tool: without a signature the text to sign, with it the store and its key. */
export function createStoreTool(nonce: Operation, signUp: Operation): Tool {
  return {
    name: 'create_store',
    title: 'Open a store',
    description:
      'Opens a store for a wallet, or makes another API key for the store that it has. First call: address and chain; the result has the text to sign. Second call: the same with message and signature; the result has apiKey, which is shown this once. Keep it secret, and send it as Authorization: Bearer from then on, or as apiKey of the other tools.',
    input: { ...signUp.input, required: ['address', 'chain'] },
    output: {
      type: 'object',
      anyOf: [
        signUp.output,
        {
          ...nonce.output,
          properties: { ...(nonce.output['properties'] as object), next: { type: 'string' } },
        },
      ],
    },
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    async run(input, { ask }) {
      const isSigned = input['signature'] !== undefined || input['message'] !== undefined
      if (isSigned) return resultOf(await ask(signUp.requestOf(input)))
      const { address, chain } = input
      const handedOut = resultOf(await ask(nonce.requestOf({ address, chain })))
      return handedOut.isError ? handedOut : told({ ...handedOut.structuredContent, next })
    },
  }
}
