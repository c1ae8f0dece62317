import { callRequest, scopeRequest, writeRequest } from '../../requests/agentRequests.ts'
import { anyObject, boolean, choice, object, text, wholeNumber } from '../../requests/schema.ts'
import { readsOnly, type Tool } from '../tool.ts'

/** Tools about what is stored: values, and credentials that are used and never seen. */
export const valueTools = {
  read: {
    name: 'vault_read',
    title: 'Read a stored value',
    description:
      'Gives what the owner stored under a scope: a name, an e-mail address, a postal address. Depending on the grant ' +
      'the owner is asked first. Do not read credentials.api.*: use them through vault_call_api.',
    input: scopeRequest.schema,
    result: object({ value: text('The stored text.') }),
    hints: readsOnly,
    mayAsk: true,
    takesKey: false,
    run: (api, input, context) => api.request('vault_read', input, context),
  },
  write: {
    name: 'vault_write',
    title: 'Store a value',
    description:
      'Stores a text under a scope; what was there is replaced. Unless the grant says otherwise, the owner is asked ' +
      'each time. Wallets can not be written.',
    input: writeRequest.schema,
    result: object({
      scope: text('The scope.'),
      created: boolean('False when something was replaced.'),
      version: wholeNumber(1, Number.MAX_SAFE_INTEGER, 'Counts the writes of this scope.'),
    }),
    // The same text again counts as another version.
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    mayAsk: true,
    takesKey: true,
    run: (api, input, context) => api.request('vault_write', input, context),
  },
  call: {
    name: 'vault_call_api',
    title: 'Call an API with a stored credential',
    description:
      'Calls an API for you with a credential that you never see: the vault puts it into the request and takes it out of ' +
      'the answer. Leave authorisation headers out. The owner’s rules say which addresses, methods and paths each ' +
      'credential may be used for. Redirects are not followed.',
    input: callRequest.schema,
    result: object({
      status: wholeNumber(100, 599, 'The HTTP status that the API answered with.'),
      headers: anyObject('Headers of the answer.'),
      body: text('The body of the answer; credentials in it are masked.'),
      body_encoding: choice(['utf8', 'base64'], 'base64 when the body is no text.'),
    }),
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    mayAsk: true,
    takesKey: false,
    run: (api, input, context) => api.request('vault_call', input, context),
  },
} satisfies Record<string, Tool>
