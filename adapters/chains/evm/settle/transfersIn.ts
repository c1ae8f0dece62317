import { LRUCache } from 'lru-cache'
import { callsIn, multicall3 } from './multicall.ts'
import { readTransfer } from './payCall.ts'
import { callOf } from './signTransaction.ts'

/** A transfer that a transaction would make. */
export interface TransferInside {
  /** Lower case, as are `from` and `nonce`. */
  readonly token: string
  readonly from: string
  readonly nonce: string
  /** Chain time in ms from which on the token refuses it. */
  readonly validBeforeMs: number
}

/**
 * The transfers by authorisation that signed bytes would make: one for a payment by itself, with its wallet made before it or
 * not, several for a transaction of many. None for bytes that are not one of our transactions.
 */
export function transfersIn(bytes: string): readonly TransferInside[] {
  if (bytes === '') return []
  let inside = known.get(bytes)
  if (inside === undefined) known.set(bytes, (inside = readTransfers(bytes)))
  return inside
}

/** The payments of one transaction ask one after the other. */
const known = new LRUCache<string, readonly TransferInside[]>({ max: 64 })

function readTransfers(bytes: string): readonly TransferInside[] {
  try {
    const call = callOf(bytes)
    const calls = call.to === multicall3 ? callsIn(call.data) : [call]
    return calls.flatMap(({ to, data }) => {
      const transfer = readTransfer(data)
      return transfer === undefined ? [] : [{ token: to, ...transfer }]
    })
  } catch {
    return []
  }
}
