import type { NetworkId } from '../domain/network.ts'
import { chargedStates, type PaymentState, paymentStates } from '../domain/payment.ts'
import type { LedgerNonces } from '../ports/chains/settler.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import { transferScheme } from './transfers.ts'

/** Maximum payments that are read, newest first. */
const NEWEST = 1_000
const signedStates = paymentStates.filter((state) => state !== 'claimed')

/**
 * Nonces that a settling key has used by the ledger, without gaps from the lowest one upwards. The ledger deletes signed bytes some
 * days after their payment. The list therefore comes from the newest payments, down to the first payment whose bytes are deleted.
 *
 * @param key id of the settler in stored attempts: `evm:eip155:8453:0xabc…`
 * @returns `isComplete` if the ledger is so young that it has the bytes of every charged payment
 */
export async function ledgerNonces(
  ledger: Pick<Ledger, 'list'>,
  network: NetworkId,
  key: string,
): Promise<LedgerNonces> {
  const newest = await ledger.list({ states: signedStates, isNewestFirst: true, limit: NEWEST })
  const numbers = new Set<number>()
  let isWhole = newest.length < NEWEST
  for (const { attempt, state, scheme, network: of } of newest) {
    if (of !== network || scheme === transferScheme) continue
    if (attempt === null && isCharged(state)) {
      isWhole = false
      break
    }
    if (attempt?.settler === key && attempt.sequence !== null) numbers.add(Number(attempt.sequence))
  }
  return { nonces: numbers, isComplete: isWhole }
}

const isCharged = (state: PaymentState): boolean => (chargedStates as readonly PaymentState[]).includes(state)
