/** A call of a link that comes by another way than HTTP, already whole. */
export interface LinkCall {
  /** In capitals. */
  readonly method: string
  /** Of the request that asks for this call: what the gateway has at it says the same one. */
  readonly requestId: string
  /** As in a request line: `/api/link/<seller>/<slug>[/rest][?query]`; read as strictly as one. */
  readonly target: string
  /** Flat: names and values in turn, such as they may stand in a head. Length and coding of the body are not among them. */
  readonly headers: readonly string[]
  readonly body: Buffer | null
  /** What would stand in `PAYMENT-SIGNATURE` (version 2) or `X-PAYMENT` (version 1). */
  readonly payment: { readonly header: string; readonly x402Version: 1 | 2 } | null
  /** Whose limits the call draws from. */
  readonly clientIp: string
  /** Aborted when nobody waits for the answer any more; the call then ends as that of a caller who hangs up. */
  readonly signal: AbortSignal
  /** A longer answer is cut there, and counts as one that its caller did not get: a repeat with the same payment gets it. */
  readonly maxAnswerBytes: number
}

/** What a call was answered. */
export interface LinkAnswer {
  readonly status: number
  /** Flat. */
  readonly headers: readonly string[]
  readonly body: Buffer
  /** False when `body` is only the beginning of the answer. */
  readonly isWhole: boolean
}

/** Calls links through their own programs, as the public listener does. */
export interface LinkCalls {
  /**
   * @returns undefined when the call was broken off: nobody waited any more, or the seller did not finish
   * @throws {TollgateError} `bad_request` for a target or a head that can be read in two ways
   */
  call(request: LinkCall): Promise<LinkAnswer | undefined>
}
