import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    maxTimeoutSeconds: {
      type: 'integer',
      minimum: 30,
      maximum: 3600,
      default: 300,
      description: 'How long a signed payment may be valid, in seconds; stands in the 402.',
    },
    acceptV1: {
      type: 'boolean',
      default: true,
      description:
        'Also take payments of x402 version 1, and answer its form of the 402 to callers that ask for it.',
    },
    legacyBody: {
      type: 'boolean',
      default: false,
      description:
        'Answer the 402 body {error, payment: {amount, currency, recipient, chain}} of clients older than x402. The header stays as it is.',
    },
  },
} as const satisfies OptionsSchema
