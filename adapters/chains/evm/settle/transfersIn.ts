import { LRUCache } from 'lru-cache'
import { decodeFunctionData, parseTransaction } from 'viem/utils'
import type { EvmCall } from '../../../../core/evm/token.ts'
import { addressWord, uintWord } from '../../../../core/evm/words.ts'
import type { Hex } from '../rpc/hex.ts'
import { multicall3, multicall3Abi, readTransfer } from './payCall.ts'

/** aggregate3((address,bool,bytes)[]) of Multicall3. */
const selector = '0x82ad56cb'

/**
 * One call that makes several, each of which may fail by itself: Multicall3's `aggregate3`, written here because it is
 * written for every transaction of many payments.
 *
 * @see https://github.com/mds1/multicall
 */
export function batchCall(calls: readonly EvmCall[]): EvmCall {
  const offsets: string[] = []
  const items: string[] = []
  let offset = 32 * calls.length
  for (const { to, data } of calls) {
    const bytes = data.slice(2)
    const padded = bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0')
    offsets.push(word(offset))
    items.push(addressWord(to) + mayFail + word(96) + word(bytes.length / 2) + padded)
    offset += 4 * 32 + padded.length / 2
  }
  return {
    to: multicall3,
    data: selector + word(32) + word(calls.length) + offsets.join('') + items.join(''),
  }
}

const word = (value: number): string => uintWord(String(value))
const mayFail = word(1)

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
    const { to, data } = parseTransaction(bytes as Hex)
    if (to == null || data === undefined) return []
    const calls = to.toLowerCase() === multicall3 ? callsOf(data) : [{ target: to, callData: data }]
    return calls.flatMap(({ target, callData }) => {
      const transfer = readTransfer(callData)
      return transfer === undefined ? [] : [{ token: target.toLowerCase(), ...transfer }]
    })
  } catch {
    return []
  }
}

function callsOf(data: Hex): readonly { readonly target: string; readonly callData: string }[] {
  return decodeFunctionData({ abi: multicall3Abi, data }).args[0]
}
