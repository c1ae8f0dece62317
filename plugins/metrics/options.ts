import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    perLink: {
      type: 'boolean',
      default: false,
      description:
        'Label every series with the link as well. Costs memory per link; leave it off for thousands of links.',
    },
    processMetrics: {
      type: 'boolean',
      default: true,
      description:
        "Also export the process's own CPU time, memory and event loop delay; measured from the first look at `/metrics` on.",
    },
  },
} as const satisfies OptionsSchema
