import type { ServerResponse } from 'node:http'

/** Aborted when the connection of a request ends before its answer: then nobody waits for it any more. */
export function abortOf(res: ServerResponse): AbortSignal {
  const gone = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) gone.abort()
  })
  return gone.signal
}
