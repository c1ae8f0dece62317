import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    maxBodyBytes: {
      type: 'integer',
      minimum: 0,
      maximum: 67_108_864,
      default: 1_048_576,
      description:
        'Paid calls with a body up to this many bytes are read whole before the claim, so that a repeated call is recognised by its body. Longer bodies are streamed, and their calls are never answered twice.',
    },
    joinTimeoutMs: {
      type: 'integer',
      minimum: 0,
      maximum: 600_000,
      default: 20_000,
      description:
        'How long a repeated call waits for the first one that carries the same payment, in milliseconds, before it is told to come back.',
    },
    replayWindowMs: {
      type: 'integer',
      minimum: 0,
      maximum: 86_400_000,
      default: 900_000,
      description:
        'How long the same call with the same payment gets the stored answer again, in milliseconds. A payment can be read on chain once it is settled, so keep this short: long enough for a buyer to retry, no longer.',
    },
    repeatFrom: {
      enum: ['buyer', 'anywhere'],
      default: 'buyer',
      description:
        'Who gets an answer again once its payment may be on chain, where anybody can read it. `buyer`: a caller with the `Idempotency-Key` (16 characters or more) that came with the call or, where none came, the network address (IPv6: the /64) that sent the call first. `anywhere`: whoever sends the same payment and the same call.',
    },
  },
} as const satisfies OptionsSchema
