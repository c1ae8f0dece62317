import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    points: {
      type: 'integer',
      minimum: 1,
      default: 120,
      description:
        'Unpaid calls that one caller may make in a window: free links, and calls without a payment.',
    },
    paymentPoints: {
      type: 'integer',
      minimum: 1,
      default: 20,
      description:
        'Failed payment attempts that one caller may make in a window, those that the caller hung up on included. A paid success costs nothing.',
    },
    windowMs: {
      type: 'integer',
      minimum: 1,
      default: 60_000,
      description: 'Length of a window, in milliseconds.',
    },
    keyBy: {
      enum: ['ip', 'link', 'ip-and-link'],
      default: 'ip',
      description:
        "Whose bucket a call draws from: the caller's address (IPv6: its /64), the link, or both together.",
    },
  },
} as const satisfies OptionsSchema
