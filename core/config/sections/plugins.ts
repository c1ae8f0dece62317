import type { ArrayOption } from '../../plugin/options.ts'

export const pluginsSection = {
  type: 'array',
  default: [],
  description:
    'The plugins that a call runs through. Inside one phase, the order here is the order of work. Without this list, every built-in plugin runs with its defaults.',
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['use'],
    description: 'One plugin.',
    properties: {
      use: {
        type: 'string',
        minLength: 1,
        description: 'Name of a built-in plugin, of an npm package, or a file such as `./my-plugin.ts`.',
      },
      with: {
        type: 'object',
        additionalProperties: true,
        default: {},
        description: "The plugin's own options; see its README.",
      },
      when: {
        type: 'object',
        additionalProperties: false,
        description: 'Links that the plugin works for. Without it, every link.',
        properties: {
          links: {
            type: 'array',
            minItems: 1,
            items: {
              type: 'string',
              pattern: '^[^/]+/[^/]+$',
              description: 'Seller and slug, `*` for any part: `alice/weather`, `alice/*`, `*/free-*`.',
            },
            description: 'Only links whose `seller/slug` matches one of these.',
          },
          paid: {
            type: 'boolean',
            description: 'Only links that cost money (true), or only free ones (false). Without it, both.',
          },
        },
      },
    },
  },
} as const satisfies ArrayOption
