import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    viewsFlushMs: {
      type: 'integer',
      minimum: 100,
      maximum: 3_600_000,
      default: 4_000,
      description:
        'How often the counted views (callers of free links, and of paid ones that saw the price; each once an hour) are written to the database, those of up to 250 links a second, in milliseconds.',
    },
  },
} as const satisfies OptionsSchema
