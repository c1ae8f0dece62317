/** How long and how much of a seller's answer is waited for; see the options of the same names. */
export interface Limits {
  readonly headersTimeoutMs: number
  readonly bodyTimeoutMs: number
  readonly answerTimeoutMs: number
  readonly maxAnswerBytes: number
  readonly freeAnswerTimeoutMs: number
  readonly maxFreeAnswerBytes: number
  readonly maxRequestBytes: number
  readonly maxCallsPerOrigin: number
  readonly placeTimeoutMs: number
  readonly slowestBytesPerSecond: number
  readonly freeTurnMs: number
  readonly tunnelIdleTimeoutMs: number
  readonly tunnelTimeoutMs: number
  readonly maxTunnelBytes: number
}
