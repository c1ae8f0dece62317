import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  examples: [{ probeIntervalMs: 60_000, probesPerSecond: 20 }],
  properties: {
    probeIntervalMs: {
      type: 'integer',
      minimum: 1_000,
      maximum: 3_600_000,
      default: 60_000,
      description:
        "Time between two health checks of a link's API, in milliseconds. The gateway varies the time slightly. If `probesPerSecond` is too low for all links, the time is longer.",
    },
    probesPerSecond: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000,
      default: 20,
      description:
        'Maximum number of health checks per second for all links together. If this number is too low, the gateway first checks the links that were called recently and the links that failed. The gateway checks the other links less often.',
    },
    calledForMs: {
      type: 'integer',
      minimum: 60_000,
      maximum: 2_592_000_000,
      default: 3_600_000,
      description:
        'How long after its last call a link counts as recently called, in milliseconds. The gateway checks recently called links first.',
    },
    probeTimeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 60_000,
      default: 5_000,
      description:
        'How long a health check may take, in milliseconds. After this time, the health check has failed.',
    },
    probe: {
      type: 'boolean',
      default: true,
      description:
        "Whether the gateway checks sellers' APIs regularly. With false, the gateway checks an API only if so many calls failed that the link may be suspended.",
    },
    confirmMs: {
      type: 'integer',
      minimum: 0,
      maximum: 3_600_000,
      default: 60_000,
      description:
        'How long the gateway checks an API whose calls fail before it suspends the link, in milliseconds. The gateway suspends the link only if all five health checks in this time fail. If only a few callers had failed calls, the time is five times as long.',
    },
  },
} as const satisfies OptionsSchema
