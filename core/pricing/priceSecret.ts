import type { Sealer } from '../ports/sealer.ts'

/**
 * The key with which the gateway signs its requests to the price server of a link. The gateway derives the key from its own secret,
 * so the database does not contain the key.
 */
export const priceKeyOf = (sealer: Pick<Sealer, 'mac'>, linkId: string): Buffer =>
  sealer.mac('price secret', linkId)
