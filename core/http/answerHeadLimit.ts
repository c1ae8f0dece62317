/**
 * What Node's HTTP clients, `fetch` among them, read of an answer's head, in bytes. The gateway reads no longer head from a seller, and
 * charges for none that becomes longer with the gateway's own headers: the buyer would pay for an answer that no client can read.
 */
export const MAX_ANSWER_HEAD_BYTES = 16_384
