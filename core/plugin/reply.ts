/** An answer that ends a call: a status, a flat list of header names and values, and a whole body. Shared, never changed. */
export interface Reply {
  readonly status: number
  /** `[name, value, name, value]`, `Content-Length` included. */
  readonly headers: readonly string[]
  /** A string is latin1: one char a byte. A list is written piece by piece. Null for answers without a body. */
  readonly body: string | Uint8Array | readonly Uint8Array[] | null
}

/** Says that a hook has written the answer itself (a stream, a tunnel) and nothing is left to send. */
export const handled: Reply = Object.freeze({ status: 0, headers: [], body: null })

/** A JSON answer. Made per error or once per link, not on the hot path. */
export function jsonReply(status: number, value: unknown, headers: readonly string[] = []): Reply {
  const body = Buffer.from(JSON.stringify(value))
  return {
    status,
    headers: [
      'Content-Type',
      'application/json; charset=utf-8',
      'Content-Length',
      String(body.length),
      ...headers,
    ],
    body,
  }
}
