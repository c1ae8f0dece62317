import {
  paymentRequest,
  previewRequest,
  signMessageRequest,
  signRequest,
  signTypedDataRequest,
} from '../../requests/agentRequests.ts'
import { boolean, choice, list, object, text } from '../../requests/schema.ts'
import { readsOnly, type Tool } from '../tool.ts'

const signed = { mayAsk: true, takesKey: true } as const
/** A signature can't be taken back; the same bytes again give the same one. The vault itself sends nothing. */
const signs = { readOnly: false, destructive: true, idempotent: true, openWorld: false } as const

/** Tools that sign, and the one that tells what signing would mean. */
export const signingTools = {
  preview: {
    name: 'vault_preview_tx',
    title: 'Preview a transaction',
    description:
      'Tells what a transaction, a message or typed data would do and what the owner’s rules would say, without ' +
      'signing or asking anybody. Give exactly one of unsigned_tx, message and typed_data. The verdict is auto (would ' +
      'be signed at once), ask (the owner would be asked) or refuse, with the reasons. Claim amount and currency as you ' +
      'would when signing: what is not claimed is never signed at once.',
    input: previewRequest.schema,
    result: object({
      verdict: choice(['auto', 'ask', 'refuse'], 'What the rules would say.'),
      'code?': text('The error that a refusal would be answered with.'),
      reasons: list({ type: 'string' }, 'Why.'),
      'chain?': text('The chain that the bytes are for.'),
      'from?': text('The address that would sign.'),
      effects: list({ type: 'string' }, 'What it does, one sentence each.'),
      warnings: list({ type: 'string' }, 'What is unusual about it.'),
      opaque: boolean('True when a part could not be understood; no rule approves it then.'),
      'fee?': text('The highest fee.'),
      'claim_proved?': { type: ['boolean', 'null'], description: 'Whether the bytes do what was claimed.' },
    }),
    hints: readsOnly,
    mayAsk: false,
    takesKey: false,
    run: (api, input, context) => api.request('vault_preview', input, context),
  },
  transaction: {
    name: 'vault_sign_tx',
    title: 'Sign a transaction',
    description:
      'Signs a transaction with the wallet of a chain and gives it back; sending it is up to you. Say what it does: ' +
      'the amount in whole units (1.5, not 1500000) and the currency. The vault decodes the bytes and refuses them ' +
      'when they do anything else (TX_MISMATCH). Small amounts may be signed at once by the owner’s rules, others ' +
      'wait for the owner. The same bytes again are the same request.',
    input: signRequest.schema,
    result: object({
      signed_tx: text('The signed transaction, in the encoding that it came in.'),
      signature: text('base58 for Solana, hex for EVM.'),
    }),
    hints: signs,
    ...signed,
    run: (api, input, context) => api.request('vault_sign_tx', input, context),
  },
  message: {
    name: 'vault_sign_message',
    title: 'Sign a message',
    description:
      'Signs a text with the wallet of a chain, for example to sign in somewhere (EIP-191 on EVM). Bytes that could ' +
      'be a transaction are refused.',
    input: signMessageRequest.schema,
    result: object({ signature: text('base58 for Solana, hex for EVM.') }),
    hints: signs,
    ...signed,
    run: (api, input, context) => api.request('vault_sign_message', input, context),
  },
  typedData: {
    name: 'vault_sign_typed_data',
    title: 'Sign typed data',
    description:
      'Signs EIP-712 data with an EVM wallet. Permits and transfer authorisations count like payments: name amount ' +
      'and currency, and they are proved against the data. To pay an HTTP 402 answer use vault_sign_x402 instead.',
    input: signTypedDataRequest.schema,
    result: object({ signature: text('0x and 65 bytes in hex.') }),
    hints: signs,
    ...signed,
    run: (api, input, context) => api.request('vault_sign_typed_data', input, context),
  },
  payment: {
    name: 'vault_sign_x402',
    title: 'Pay an x402 offer',
    description:
      'Pays for an HTTP call that answered 402. Give the body of that answer, or the decoded PAYMENT-REQUIRED header, ' +
      'as payment_required, and the most you would pay. The vault chooses an offer it can pay, builds and signs the ' +
      'payment, and gives the value of the PAYMENT-SIGNATURE header to send with the call (x402 version 2). Every call ' +
      'of this tool is another purchase; to ask again about the same one, repeat it with the same idempotency_key.',
    input: paymentRequest.schema,
    result: object({ payment_header: text('The value of the header, to be sent as it is, once.') }),
    // Another call is another payment; on Solana a node is asked for a recent block.
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    ...signed,
    run: (api, input, context) => api.request('vault_sign_x402', input, context),
  },
} satisfies Record<string, Tool>
