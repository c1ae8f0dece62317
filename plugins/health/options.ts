import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    probeIntervalMs: {
      type: 'integer',
      minimum: 1_000,
      maximum: 3_600_000,
      default: 60_000,
      description:
        "How often every link's API is asked whether it answers, in milliseconds; spread out with jitter.",
    },
    probeTimeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 60_000,
      default: 5_000,
      description: 'How long a probe may take, in milliseconds.',
    },
    probe: {
      type: 'boolean',
      default: true,
      description:
        'Whether APIs are probed at regular times. Without it they are asked only when so many calls failed that a link may have to be suspended.',
    },
    confirmMs: {
      type: 'integer',
      minimum: 0,
      maximum: 3_600_000,
      default: 60_000,
      description:
        'Over how long five probes are spread that have to fail before failed calls of many callers suspend a link, in milliseconds; five times as long for those of few callers.',
    },
  },
} as const satisfies OptionsSchema
