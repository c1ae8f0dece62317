import type { OptionsSchema } from '../../core/plugin/options.ts'
/** Limits on the time and size of a seller's response. See the options of the same names. */
export interface Limits {
  readonly headersTimeoutMs: number
  readonly bodyTimeoutMs: number
  readonly responseTimeoutMs: number
  readonly maxResponseBytes: number
  readonly freeResponseTimeoutMs: number
  readonly maxFreeResponseBytes: number
  readonly maxRequestBytes: number
  readonly maxCallsPerOrigin: number
  readonly slotTimeoutMs: number
  readonly slowestBytesPerSecond: number
  readonly freeTurnMs: number
  readonly tunnelIdleTimeoutMs: number
  readonly tunnelTimeoutMs: number
  readonly maxTunnelBytes: number
}

export const options = {
  type: 'object',
  additionalProperties: false,
  examples: [{ headersTimeoutMs: 30_000, maxRequestBytes: 104_857_600, maxResponseBytes: 5_242_880 }],
  properties: {
    headersTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 600_000,
      default: 30_000,
      description:
        "How long the seller's API may take until its response begins, in milliseconds. After this time, the caller gets 504.",
    },
    bodyTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 3_600_000,
      default: 60_000,
      description:
        "How long the seller's API may send nothing in the middle of a response, in milliseconds. After this time, the gateway ends the call.",
    },
    responseTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 3_600_000,
      default: 60_000,
      description:
        'How long the whole response to a paid call with `settle: after` may take, in milliseconds. Use `settle: before` for streams.',
    },
    maxRequestBytes: {
      type: 'integer',
      minimum: 0,
      default: 104_857_600,
      description: 'Maximum size of a request body, in bytes. A larger body gets 413.',
    },
    maxCallsPerOrigin: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 1_024,
      description:
        'Maximum number of running and waiting calls, including WebSockets, of one store to one origin (scheme, host and port of an API). Further calls get 503 and cost nothing. The option `egress.connectionsPerOrigin` limits the connections.',
    },
    slotTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 600_000,
      default: 10_000,
      description:
        "How long a call may wait for a connection to the seller's API, in milliseconds. After this time, the call gets 503 and costs nothing. A paid call waits before the gateway verifies its payment on chain.",
    },
    slowestBytesPerSecond: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000_000,
      default: 4_096,
      description:
        'Minimum speed at which a caller must read or send while other calls wait for a connection, in bytes per second, averaged over 5 seconds. The gateway ends the call of a slower caller. If the slower caller was already charged, the gateway stores a response up to `maxResponseBytes` for a repeated call. A larger charged response ends only after the caller has been too slow for `bodyTimeoutMs`.',
    },
    freeTurnMs: {
      type: 'integer',
      minimum: 1,
      maximum: 604_800_000,
      default: 60_000,
      description:
        'How long a free call may keep its connection while other free calls of the same store wait for a connection, in milliseconds. After this time, the gateway may end the free call that has run longest. The time is only 5 seconds if a paid call waits. The time is also 5 seconds, for every call that was not charged, if a call of a store with fewer connections to the origin waits.',
    },
    maxResponseBytes: {
      type: 'integer',
      minimum: 1024,
      maximum: 268_435_456,
      default: 5_242_880,
      description:
        'Maximum size of a paid response that the gateway buffers until the buyer is charged, in bytes. If the response is larger, the call gets 502 and costs nothing. With `settle: before`, the gateway also streams larger responses, but stores only responses up to this size for repeated calls.',
    },
    freeResponseTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 604_800_000,
      default: 3_600_000,
      description:
        'How long a response of a free link may stream, in milliseconds. After this time, the gateway ends the response. A paid stream has no such limit.',
    },
    maxFreeResponseBytes: {
      type: 'integer',
      minimum: 1,
      maximum: 1_099_511_627_776,
      default: 10_737_418_240,
      description:
        'Maximum size of a response of a free link, in bytes. If `Content-Length` is larger, the call gets 502. If a stream becomes larger, the gateway ends the stream.',
    },
    tunnelIdleTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 86_400_000,
      default: 300_000,
      description:
        'How long a WebSocket may have no traffic in either direction, in milliseconds. After this time, the gateway closes the WebSocket. A ping counts as traffic.',
    },
    tunnelTimeoutMs: {
      type: 'integer',
      minimum: 1,
      maximum: 604_800_000,
      default: 7_200_000,
      description:
        'How long a WebSocket may be open, in milliseconds. After this time, the gateway closes the WebSocket. To open another WebSocket, a buyer pays for another call.',
    },
    maxTunnelBytes: {
      type: 'integer',
      minimum: 1,
      maximum: 1_099_511_627_776,
      default: 1_073_741_824,
      description:
        'Maximum number of bytes that a WebSocket may transfer in both directions together. Above this limit, the gateway closes the WebSocket.',
    },
  },
} as const satisfies OptionsSchema
