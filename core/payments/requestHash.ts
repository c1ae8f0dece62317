import { createHash, hash } from 'node:crypto'

/**
 * What call a payment buys: SHA-256, hex, over method, path, query and body, each with its length in front. The same
 * payment with another hash is another call, and is refused; with the same hash it gets the stored answer.
 *
 * @param body null when the call has none
 */
export function requestHash(method: string, target: string, body: Uint8Array | null): string {
  const head = `${method.length}:${method}${target.length}:${target}${body?.length ?? 0}:`
  // In one go where there is one piece: a hash object costs twice as much (bench/paid.ts).
  if (body === null) return hash('sha256', head, 'hex')
  return createHash('sha256').update(head).update(body).digest('hex')
}
