import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  examples: [{ maxTimeoutSeconds: 300 }],
  properties: {
    maxTimeoutSeconds: {
      type: 'integer',
      minimum: 30,
      maximum: 3600,
      default: 300,
      description:
        'How long a signed payment may be valid, in seconds. Each 402 response contains this value as `maxTimeoutSeconds`.',
    },
    acceptV1: {
      type: 'boolean',
      default: true,
      description:
        'Whether the gateway also accepts payments of x402 version 1, and returns the 402 response of version 1 to callers that request it.',
    },
    legacyBody: {
      type: 'boolean',
      default: false,
      description:
        'Whether the body of a 402 response has the form that clients older than x402 need: `{error, payment: {amount, currency, recipient, chain}}`. The headers of the response do not change.',
    },
    signedReceipts: {
      enum: ['off', 'on', 'with-transaction'],
      default: 'off',
      description:
        "Whether the gateway signs its offers and receipts (x402 extension `offer-receipt`). With `on`, a signed receipt contains the buyer's wallet, the link and the time. With `with-transaction`, it also contains the transaction. A 402 response grows by about 0.8 KB for each payment method, and a paid call takes about 0.1 ms longer.",
    },
  },
} as const satisfies OptionsSchema
