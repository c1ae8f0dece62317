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
        "How often a link's API is asked whether it answers, in milliseconds; spread out with jitter. Less often where `probesPerSecond` does not suffice for all links.",
    },
    probesPerSecond: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000,
      default: 20,
      description:
        'How many APIs are asked in a second at most, of all links together. Where that is too few to ask each link every `probeIntervalMs`, links that were called lately and links that failed go first, and the others take turns in what is left.',
    },
    calledForMs: {
      type: 'integer',
      minimum: 60_000,
      maximum: 2_592_000_000,
      default: 3_600_000,
      description: 'How long after a call a link is one of those that were called lately, in milliseconds.',
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
