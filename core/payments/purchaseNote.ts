import { hash } from 'node:crypto'
import type { PurchaseNote } from '../plugin/exchange.ts'
import type { Sealer } from '../ports/sealer.ts'

/** Makes what is added to a paid answer. The same purchase always gets the same note, so a repeated answer is the same. */
export interface PurchaseNotes {
  of(purchaseId: string, wrapped: boolean): PurchaseNote
  /** SHA-256, hex, of the purchase's review token: what is stored. */
  tokenHash(purchaseId: string): string
}

/**
 * The review token is 32 bytes of HMAC over the purchase id under the server's secret: as hard to guess as random ones,
 * and it need not be kept anywhere to be said again.
 *
 * @param metadataField name of the field beside `data`: `_svc`
 */
export function createPurchaseNotes(sealer: Pick<Sealer, 'mac'>, metadataField: string): PurchaseNotes {
  const prefix = Buffer.from('{"data":')
  const opening = `,${JSON.stringify(metadataField)}:{"purchaseId":"`
  /** A purchase is asked for twice in a row, for its hash and for its note; one HMAC does (bench/paid.ts). */
  let last = { purchaseId: '', token: '' }
  const tokenOf = (purchaseId: string) => {
    if (last.purchaseId !== purchaseId) {
      const token = sealer.mac('review-token', purchaseId).toString('base64url')
      last = { purchaseId, token }
    }
    return last.token
  }
  return {
    of(purchaseId, wrapped) {
      const reviewToken = tokenOf(purchaseId)
      const suffix = wrapped
        ? Buffer.from(`${opening}${purchaseId}","reviewToken":"${reviewToken}"}}`, 'latin1')
        : null
      return {
        id: purchaseId,
        reviewToken,
        wrap: suffix === null ? null : { prefix, suffix },
        headers: ['X-Purchase-Id', purchaseId, 'X-Review-Token', reviewToken],
      }
    },
    tokenHash: (purchaseId) => hash('sha256', tokenOf(purchaseId), 'hex'),
  }
}
