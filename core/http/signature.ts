import { createHmac } from 'node:crypto'

/** A signing key as its owner sees it, in the form of Standard Webhooks. */
export const secretText = (key: Uint8Array): string => `whsec_${Buffer.from(key).toString('base64')}`

/**
 * The headers that sign a request by Standard Webhooks. Each key makes one signature, which is HMAC-SHA256 over
 * `id.timestamp.body`.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function signatureHeaders(
  keys: readonly Uint8Array[],
  { id, body, nowMs }: { readonly id: string; readonly body: string; readonly nowMs: number },
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const signatures = keys.map(
    (key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`,
  )
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  }
}
