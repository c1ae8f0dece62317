import {
  paymentRequest,
  previewRequest,
  signMessageRequest,
  signRequest,
  signTypedDataRequest,
} from '../../requests/agentRequests.ts'
import { boolean, list, object, text } from '../../requests/schema.ts'
import { readsOnly, type Tool } from '../tool.ts'

const signed = { mayAsk: true, takesKey: true } as const
/** A signature can't be taken back; the same bytes again give the same one. The vault itself sends nothing. */
const signs = { readOnly: false, destructive: true, idempotent: true, openWorld: false } as const

/** Tools that sign, and the one that tells what signing would mean. */
export const signingTools = {
  preview: {
    name: 'vault_preview_tx',
    description:
      'What a transaction, message or typed data (exactly one of them) would do and what the owner’s rules say: auto (signed ' +
      'at once), ask (the owner is asked) or refuse. Claim amount and currency as when signing: what is not claimed is never ' +
      'signed at once.',
    input: previewRequest.schema,
    result: object({
      verdict: text(),
      code: text(),
      reasons: list(text()),
      effects: list(text()),
      warnings: list(text()),
      opaque: boolean(),
      claim_proved: boolean(),
    }),
    hints: readsOnly,
    mayAsk: false,
    takesKey: false,
    run: (api, input, context) => api.request('vault_preview', input, context),
  },
  transaction: {
    name: 'vault_sign_tx',
    description:
      'Signs a transaction and gives it back; sending it is up to you. Its bytes are decoded, and refused when they do ' +
      'anything but what you claim.',
    input: signRequest.schema,
    result: object({ signed_tx: text(), signature: text() }),
    hints: signs,
    ...signed,
    run: (api, input, context) => api.request('vault_sign_tx', input, context),
  },
  message: {
    name: 'vault_sign_message',
    description:
      'Signs a text with the wallet of a chain (EIP-191 on EVM), for example to sign in. No transactions.',
    input: signMessageRequest.schema,
    result: object({ signature: text() }),
    hints: signs,
    ...signed,
    run: (api, input, context) => api.request('vault_sign_message', input, context),
  },
  typedData: {
    name: 'vault_sign_typed_data',
    description:
      'Signs EIP-712 data with an EVM wallet. Of permits and transfer authorisations claim amount and currency. To pay an ' +
      'HTTP 402 use vault_sign_x402.',
    input: signTypedDataRequest.schema,
    result: object({ signature: text() }),
    hints: signs,
    ...signed,
    run: (api, input, context) => api.request('vault_sign_typed_data', input, context),
  },
  payment: {
    name: 'vault_sign_x402',
    description:
      'Pays for an HTTP call that answered 402 (x402 version 2): gives the value of the header PAYMENT-SIGNATURE, to be sent ' +
      'with the call once. Every call is another purchase, unless it repeats an idempotency_key.',
    input: paymentRequest.schema,
    result: object({ payment_header: text() }),
    // Another call is another payment; on Solana a node is asked for a recent block.
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    ...signed,
    run: (api, input, context) => api.request('vault_sign_x402', input, context),
  },
} satisfies Record<string, Tool>
