import type { OptionsSchema } from 'tollgate/plugin'

/** Type, validation, defaults and editor help in one. */
export const options = {
  type: 'object',
  additionalProperties: false,
  required: ['wallets'],
  properties: {
    wallets: {
      type: 'array',
      items: { type: 'string', minLength: 1, description: 'A 0x or a Solana address.' },
      maxItems: 10_000,
      description: 'Wallets whose payments are refused; case does not count.',
    },
  },
} as const satisfies OptionsSchema
