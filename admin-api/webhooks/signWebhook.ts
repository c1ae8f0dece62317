import { createHmac, randomBytes } from 'node:crypto'
import type { WebhookEndpoint } from '../../core/domain/webhook.ts'
import type { Sealer } from '../../core/ports/sealer.ts'

const prefix = 'whsec_'
const purpose = 'webhook secret'

/** What a new secret is derived from. */
export const newSalt = (): string => randomBytes(16).toString('hex')

/**
 * The secret of an endpoint as its seller is shown it: derived from the server's own, so that the database holds nothing
 * that signs, sealed or not.
 */
export const secretOf = (sealer: Pick<Sealer, 'mac'>, id: string, salt: string): string =>
  prefix + sealer.mac(purpose, `${id}:${salt}`).toString('base64')

/**
 * The headers of one try, by Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, by the present secret and, after a
 * rotation, for a day by the one before as well.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function signWebhook(
  sealer: Pick<Sealer, 'mac'>,
  { id, salt, previousSalt, previousUntilMs }: WebhookEndpoint,
  { eventId, body, nowMs }: { readonly eventId: string; readonly body: string; readonly nowMs: number },
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const isBothValid = previousSalt !== null && previousUntilMs !== null && nowMs < previousUntilMs
  const signatures = [salt, ...(isBothValid ? [previousSalt] : [])].map((one) => {
    const key = sealer.mac(purpose, `${id}:${one}`)
    return `v1,${createHmac('sha256', key).update(`${eventId}.${timestamp}.${body}`).digest('base64')}`
  })
  return {
    'webhook-id': eventId,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  }
}
