import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  examples: [{ replayWindowMs: 900_000, repeatFrom: 'buyer' }],
  properties: {
    maxBodyBytes: {
      type: 'integer',
      minimum: 0,
      maximum: 67_108_864,
      default: 1_048_576,
      description:
        'Maximum size of a request body for which the gateway recognizes a repeated paid call, in bytes. A repeated call with a larger body never gets the stored response.',
    },
    joinTimeoutMs: {
      type: 'integer',
      minimum: 0,
      maximum: 600_000,
      default: 20_000,
      description:
        'How long a repeated call waits for the response of the first call with the same payment, in milliseconds. After this time, the repeated call gets `settlement_pending`.',
    },
    replayWindowMs: {
      type: 'integer',
      minimum: 0,
      maximum: 86_400_000,
      default: 900_000,
      description:
        'How long after the first call a repeated call with the same payment gets the stored response, in milliseconds. Everyone can read a settled payment on chain, so choose a time that is just long enough for buyers to retry.',
    },
    repeatFrom: {
      enum: ['buyer', 'anywhere'],
      default: 'buyer',
      description:
        'Which callers may get a stored response once the payment may be on chain. A payment on chain is public, so other people can send it again. With `buyer`, the repeated call must come from the same IP address (IPv6: the same /64 range) as the first call. If the first call had a payment identifier or an `Idempotency-Key` of 16 characters or more, the repeated call must have the same one instead. With `anywhere`, every caller who repeats the call with the same payment gets the response.',
    },
  },
} as const satisfies OptionsSchema
