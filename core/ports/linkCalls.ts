/** A call of a link over a transport other than HTTP. Its whole body has arrived. */
export interface LinkCall {
  /** HTTP method in capitals. */
  readonly method: string
  /** Id of the request that causes this call. The gateway uses it in the call's log lines and headers. */
  readonly requestId: string
  /**
   * The target as in a request line, `/api/link/<seller>/<slug>[/rest][?query]`. The gateway parses it as strictly as a request
   * line.
   */
  readonly target: string
  /** Names and values in turn, valid as HTTP headers. Headers for the body's length and encoding are not included. */
  readonly headers: readonly string[]
  readonly body: Buffer | null
  /** The value of `PAYMENT-SIGNATURE` (version 2) or `X-PAYMENT` (version 1). */
  readonly payment: { readonly header: string; readonly x402Version: 1 | 2 } | null
  /** Address of the client for rate limits. */
  readonly clientIp: string
  /** Ends the call as if its caller had disconnected. Abort it when the response is no longer needed. */
  readonly signal: AbortSignal
  /**
   * Maximum size of the response, in bytes. A longer response is truncated and counts as not received, so that the caller can get
   * it by repeating the call with the same payment.
   */
  readonly maxResponseBytes: number
}

/** The response of a call. */
export interface LinkResponse {
  readonly status: number
  /** Names and values in turn. */
  readonly headers: readonly string[]
  readonly body: Buffer
  /** False if `body` is only the beginning of the response. */
  readonly isWhole: boolean
}

/** Calls links through the same pipelines as the public listener. */
export interface LinkCalls {
  /**
   * @returns undefined if the call was aborted, or the seller did not finish
   * @throws {TollgateError} `bad_request` for a target or a head that can be read in two ways
   */
  call(request: LinkCall): Promise<LinkResponse | undefined>
}
