import { randomBytes } from 'node:crypto'
import type { WebhookEndpoint } from '../../core/domain/webhook.ts'
import { secretText, signatureHeaders } from '../../core/http/signature.ts'
import type { Sealer } from '../../core/ports/sealer.ts'

const purpose = 'webhook secret'

/** A salt from which a new secret is derived. */
export const newSalt = (): string => randomBytes(16).toString('hex')

/**
 * The secret of an endpoint as its seller sees it. It is derived from the server's secret, so that the database contains no signing
 * secret, not even an encrypted one.
 */
export const secretOf = (sealer: Pick<Sealer, 'mac'>, id: string, salt: string): string =>
  secretText(sealer.mac(purpose, `${id}:${salt}`))

/**
 * The headers of one try. The current secret signs the try. For a day after a rotation, the previous secret signs it too.
 */
export function signWebhook(
  sealer: Pick<Sealer, 'mac'>,
  { id, salt, previousSalt, previousUntilMs }: WebhookEndpoint,
  { eventId, body, nowMs }: { readonly eventId: string; readonly body: string; readonly nowMs: number },
): Readonly<Record<string, string>> {
  const isBothValid = previousSalt !== null && previousUntilMs !== null && nowMs < previousUntilMs
  const keys = [salt, ...(isBothValid ? [previousSalt] : [])].map((one) =>
    sealer.mac(purpose, `${id}:${one}`),
  )
  return signatureHeaders(keys, { id: eventId, body, nowMs })
}
