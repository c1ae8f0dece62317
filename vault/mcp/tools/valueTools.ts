import { callRequest, scopeRequest, writeRequest } from '../../requests/agentRequests.ts'
import { boolean, object, text, wholeNumber } from '../../requests/schema.ts'
import { readsOnly, type Tool } from '../tool.ts'

/** Tools about what is stored: values, and credentials that are used and never seen. */
export const valueTools = {
  read: {
    name: 'vault_read',
    description:
      'What the owner stored under a scope: a name, an e-mail address, a postal address. Do not read credentials.api.*: use ' +
      'vault_call_api.',
    input: scopeRequest.schema,
    result: object({ value: text() }),
    hints: readsOnly,
    mayAsk: true,
    takesKey: false,
    run: (api, input, context) => api.request('vault_read', input, context),
  },
  write: {
    name: 'vault_write',
    description: 'Stores a text under a scope and replaces what was there. Wallets can not be written.',
    input: writeRequest.schema,
    result: object({
      scope: text(),
      created: boolean(),
      version: wholeNumber(1, Number.MAX_SAFE_INTEGER),
    }),
    // The same text again counts as another version.
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    mayAsk: true,
    takesKey: true,
    run: (api, input, context) => api.request('vault_write', input, context),
  },
  call: {
    name: 'vault_call_api',
    description:
      'Calls an API with a credential that you never see: the vault puts it into the request and masks it in the answer. The ' +
      'owner’s rules say which methods, addresses and paths it is for. Redirects are not followed.',
    input: callRequest.schema,
    result: object({
      status: wholeNumber(100, 599),
      headers: object({ 'content-type': text() }),
      body: text(),
      body_encoding: text('utf8 or base64.'),
    }),
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    mayAsk: true,
    takesKey: true,
    run: (api, input, context) => api.request('vault_call', input, context),
  },
} satisfies Record<string, Tool>
