import type { FastifyRequest } from 'fastify'
import type { Purchase } from '../../core/domain/purchase.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { idOrNotFound } from '../http/ids.ts'

/**
 * A purchase of the caller's store. Another store's answers like one that does not exist.
 *
 * @throws `NOT_FOUND`
 */
export async function ownPurchase(api: Api, request: FastifyRequest, id: string): Promise<Purchase> {
  const purchase = await api.purchases.find(idOrNotFound(id, 'NOT_FOUND'))
  if (purchase !== undefined && purchase.storeId === callerOf(request).store.id) return purchase
  throw new TollgateError('NOT_FOUND', 'Your store has no purchase with this id.')
}
