/**
 * What became of the calls of links in one process since it started: each is counted once, when it has been answered. Numbers
 * that only grow; whoever wants a rate reads them twice.
 */
export interface CallCounts {
  /** Of a paid link, without a payment: answered by the price (402). */
  readonly asked: number
  /** Charged and booked by this call. */
  readonly paid: number
  /** Of `paid`, those whose answer went out whole. The buyer of another one hears it by repeating the call. */
  readonly answered: number
  /** A payment that had bought its call before; given the kept answer again. */
  readonly repeated: number
  /** Its settlement was not known in time. */
  readonly pending: number
  /** 4xx, a payment that was not taken included: nothing was charged. */
  readonly refused: number
  /** 5xx: nothing was charged. */
  readonly failed: number
  /** Answered without a price. */
  readonly free: number
  /** The caller had gone before there was an answer. */
  readonly left: number
}

/** One process of an installation, and its calls. */
export interface ProcessCalls {
  /** `worker-3`; another one after it was started anew, so that its numbers begin anew as well. */
  readonly process: string
  /** Undefined where it did not say in time. */
  readonly calls:
    | (CallCounts & { /** Of which a hook has yet to answer. */ readonly underWay: number })
    | undefined
}
