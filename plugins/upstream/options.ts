import type { OptionsSchema } from '../../core/plugin/options.ts'

export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    headersTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 600_000,
      default: 30_000,
      description: "How long the seller's API may take until its answer begins, in milliseconds; then 504.",
    },
    bodyTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 3_600_000,
      default: 60_000,
      description:
        "How long the seller's API may be silent inside an answer, in milliseconds; then the call is broken off.",
    },
    answerTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 3_600_000,
      default: 60_000,
      description:
        'How long a whole paid answer may take that is charged after it is there, in milliseconds. Streams belong on links with settle: before.',
    },
    maxRequestBytes: {
      type: 'integer',
      minimum: 0,
      default: 104_857_600,
      description: 'Largest request body that is forwarded, in bytes; more is 413.',
    },
    maxCallsPerOrigin: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 1_024,
      description:
        'Calls of one store that may be under way to one origin at once, those that wait for a connection and open WebSockets included; more are 503 and cost nothing. Connections are limited by egress.connectionsPerOrigin.',
    },
    placeTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 600_000,
      default: 10_000,
      description:
        "How long a call may wait for one of the connections to the seller's API, in milliseconds; then it is 503 and costs nothing. Paid calls wait before the payment is verified.",
    },
    slowestBytesPerSecond: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000_000,
      default: 4_096,
      description:
        'How fast a caller has to take an answer or send a body while other calls wait for the connection, in bytes a second, averaged over 5 seconds; a slower one is cut for them. A charged answer is kept for a repeated call up to maxAnswerBytes; one that is larger is cut when its reader is behind by bodyTimeoutMs.',
    },
    freeTurnMs: {
      type: 'integer',
      minimum: 1,
      maximum: 604_800_000,
      default: 60_000,
      description:
        'How long a free call keeps its connection at least while other free calls of its store wait for one, in milliseconds; then the longest gives way. To paid calls, and to stores that have fewer connections there, calls that were not charged give way after 5 seconds.',
    },
    maxAnswerBytes: {
      type: 'integer',
      minimum: 1024,
      maximum: 268_435_456,
      default: 5_242_880,
      description:
        'Largest paid answer that is held in memory until it is charged, in bytes; a larger one is a 502 and costs nothing. Links with settle: before stream without this limit, and keep an answer for a repeated call only up to it.',
    },
    freeAnswerTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 604_800_000,
      default: 3_600_000,
      description:
        'How long an answer of a free link may stream on, in milliseconds, its reader included; then it is cut. Paid streams go on as long as the seller sends.',
    },
    maxFreeAnswerBytes: {
      type: 'integer',
      minimum: 1,
      maximum: 1_099_511_627_776,
      default: 10_737_418_240,
      description:
        'Largest answer of a free link, in bytes: one that states to be larger is a 502, one that comes to be larger is cut.',
    },
    tunnelIdleTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 86_400_000,
      default: 300_000,
      description:
        'How long a WebSocket may carry nothing in either direction, in milliseconds; then it is closed. Pings count.',
    },
    tunnelTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 604_800_000,
      default: 7_200_000,
      description:
        'How long a WebSocket may be open, in milliseconds; then it is closed, and opening it again is a new call.',
    },
    maxTunnelBytes: {
      type: 'integer',
      minimum: 1,
      maximum: 1_099_511_627_776,
      default: 1_073_741_824,
      description:
        'Bytes that a WebSocket may carry, both directions together; with the next one it is closed.',
    },
  },
} as const satisfies OptionsSchema
