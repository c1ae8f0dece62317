/**
 * How the calls of one process's links have ended since the process started. Each call is counted once, when its response has
 * ended. The numbers only grow, so that the difference of two reads gives a rate.
 */
export interface CallCounts {
  /** Calls of a paid link without a payment, which got the price (402). */
  readonly asked: number
  /** Calls that charged a payment and recorded the sale. */
  readonly paid: number
  /** Calls in `paid` whose whole response was sent. A buyer who did not get the whole response gets it by repeating the call. */
  readonly answered: number
  /** Calls whose payment had already bought the same call, so that they got the stored response. */
  readonly repeated: number
  /** Calls that ended before the outcome of their settlement was known. */
  readonly pending: number
  /** Calls that got a 4xx response, including refused payments, and were not charged. */
  readonly refused: number
  /** Calls that got a 5xx response and were not charged. */
  readonly failed: number
  /** Free calls that got a response. */
  readonly free: number
  /** Calls whose caller disconnected before there was a response. */
  readonly left: number
}

/** One process of an installation, and the counts of its calls. */
export interface ProcessCalls {
  /** Name of the process, such as `worker-3`. A restarted process gets another name, because its counts start again. */
  readonly process: string
  /** Undefined if the process did not report its counts in time. */
  readonly calls:
    | (CallCounts & { /** Calls whose pipeline waits for a hook. */ readonly underWay: number })
    | undefined
}
