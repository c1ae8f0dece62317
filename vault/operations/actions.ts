import {
  callRequest,
  paymentRequest,
  scopeRequest,
  signMessageRequest,
  signRequest,
  signTypedDataRequest,
  writeRequest,
} from '../requests/agentRequests.ts'
import { boolean, object, text, wholeNumber } from '../requests/schema.ts'
import { pipelineOperation } from './operation.ts'

/** What agents do through the pipeline: read, write, sign, pay and call. */
export const actions = [
  pipelineOperation({
    at: 'POST /v1/vault/read',
    name: 'vault_read',
    description: 'Read the value of a scope: {scope, agent_name}.',
    takes: scopeRequest,
    tool: {
      description:
        'What the owner stored under a scope, such as a name or a postal address. Do not read credentials.api.*: use ' +
        'vault_call_api.',
      result: object({ value: text() }),
      mayAsk: true,
    },
  }),
  pipelineOperation({
    at: 'POST /v1/vault/write',
    name: 'vault_write',
    description: 'Store a value: {scope, value, agent_name}.',
    takes: writeRequest,
    tool: {
      description: 'Stores a text under a scope and replaces the old one. Wallets cannot be written.',
      result: object({
        scope: text(),
        created: boolean(),
        version: wholeNumber(1, Number.MAX_SAFE_INTEGER),
      }),
      // Writing the same text again creates another version.
      changes: {},
      mayAsk: true,
    },
  }),
  pipelineOperation({
    at: 'POST /v1/vault/delete',
    name: 'vault_delete',
    description: 'Delete a value: {scope, agent_name}.',
    takes: scopeRequest,
  }),
  pipelineOperation({
    at: 'POST /v1/vault/sign',
    name: 'vault_sign_tx',
    description:
      'Sign a transaction: {chain, agent_name, amount, currency, unsigned_tx}. The vault checks that the transaction does what the other fields claim.',
    takes: signRequest,
    tool: {
      description:
        'Signs a transaction and returns it. You send it. The vault decodes its bytes and refuses them if they do ' +
        'anything but what you claim.',
      result: object({ signed_tx: text(), signature: text() }),
      changes: { repeatable: true },
      mayAsk: true,
    },
  }),
  pipelineOperation({
    // The interface document's own vault uses the second spelling.
    at: ['POST /v1/vault/sign-message', 'POST /v1/vault/sign_message'],
    name: 'vault_sign_message',
    description: 'Sign a text that is not a transaction: {chain, message, encoding?, agent_name}.',
    takes: signMessageRequest,
    tool: {
      description:
        'Signs a text with the wallet of a chain (EIP-191 on EVM), for example to sign in. No transactions.',
      result: object({ signature: text() }),
      changes: { repeatable: true },
      mayAsk: true,
    },
  }),
  pipelineOperation({
    at: ['POST /v1/vault/sign-typed-data', 'POST /v1/vault/sign_typed_data'],
    name: 'vault_sign_typed_data',
    description: 'Sign EIP-712 data: {chain, typed_data, amount?, currency?, recipient?, agent_name}.',
    takes: signTypedDataRequest,
    tool: {
      description:
        'Signs EIP-712 data with an EVM wallet. For permits and transfer authorizations, claim amount and currency. To pay an ' +
        'HTTP 402 use vault_sign_x402.',
      result: object({ signature: text() }),
      changes: { repeatable: true },
      mayAsk: true,
    },
  }),
  pipelineOperation({
    at: 'POST /v1/vault/sign-payment',
    name: 'vault_sign_x402',
    description: 'Build and sign the payment for an x402 offer: {payment_required, max_amount, agent_name}.',
    takes: paymentRequest,
    tool: {
      description:
        'Pays for an HTTP call that returned 402 (x402 version 2). Returns the value of the PAYMENT-SIGNATURE header, to be sent ' +
        'with the call once. Each use is another purchase, unless it repeats an idempotency_key.',
      result: object({ payment_header: text() }),
      // On Solana the vault requests a recent block from a node.
      changes: { outside: true },
      mayAsk: true,
    },
  }),
  pipelineOperation({
    at: 'POST /v1/vault/call',
    name: 'vault_call',
    description: 'Call an API with a stored credential: {scope, method, url, headers?, body?, agent_name}.',
    takes: callRequest,
    tool: {
      name: 'vault_call_api',
      description:
        'Calls an API with a credential that you never see. The vault adds the credential to the request and masks it in the response. The ' +
        'owner’s rules say which methods, addresses and paths it is for. Redirects are not followed.',
      result: object({
        status: wholeNumber(100, 599),
        headers: object({ 'content-type': text() }),
        body: text(),
        body_encoding: text('utf8 or base64.'),
      }),
      changes: { outside: true },
      mayAsk: true,
    },
  }),
]
