import type { OptionsSchema } from 'tollgate/plugin'

/** Type, validation, defaults and editor help in one. */
export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    hosts: {
      type: 'array',
      default: [],
      maxItems: 1_000,
      items: { type: 'string', minLength: 1, description: 'A host, with its port where it has one.' },
      description:
        'Hosts that the agent may call without asking for approval, if the other rules also allow the call.',
    },
    quietFrom: {
      type: 'string',
      pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$',
      default: '22:00',
      description: 'From this time on everything is asked for, as HH:MM.',
    },
    quietTo: {
      type: 'string',
      pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$',
      default: '07:00',
      description: 'Until this time, as HH:MM. The same as `quietFrom`: no quiet time.',
    },
    timeZone: {
      type: 'string',
      minLength: 1,
      default: 'UTC',
      description: 'Whose times these are, such as Europe/Lisbon.',
    },
  },
} as const satisfies OptionsSchema
