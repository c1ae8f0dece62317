import { randomUUID } from 'node:crypto'

/** Ids as callers' tools make them: UUIDs, ULIDs, the trace ids of clouds. Short, and nothing that could break a log line. */
const form = /^[\w.:=+/@-]{8,64}$/

/**
 * The id by which a request is found again: in `X-Request-Id` of its answer, in `error.requestId`, in the log, and at the seller.
 *
 * @param given what the caller sent as `X-Request-Id`: it is kept where it has the form of an id
 */
export function requestIdOf(given: string | undefined): string {
  return given !== undefined && form.test(given) ? given : randomUUID()
}
