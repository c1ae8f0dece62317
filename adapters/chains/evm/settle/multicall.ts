import { decode } from 'ox/AbiParameters'
import { addressWord, bytesWords, type EvmCall, uintWord } from '../../../../core/evm/token.ts'
import type { Hex } from '../rpc/nodes.ts'

/** Multicall3 has the same address on every chain. @see https://www.multicall3.com */
export const multicall3 = '0xca11bde05977b3631167028862be2a173976ca11'

/** Selector of aggregate3((address,bool,bytes)[]). */
const selector = '0x82ad56cb'

/** One of several calls in a transaction. */
export interface CallInside extends EvmCall {
  /** Whether the failure of this call also undoes the calls before it. By default only this call fails. */
  readonly mustSucceed?: boolean
}

/**
 * Encodes several calls as one call of Multicall3's `aggregate3`. Every batch needs it, so no slower library does this.
 *
 * @see https://github.com/mds1/multicall
 */
export function aggregate3(calls: readonly CallInside[]): EvmCall {
  const offsets: string[] = []
  const items: string[] = []
  let offset = 32 * calls.length
  for (const { to, data, mustSucceed = false } of calls) {
    const bytes = bytesWords(data)
    offsets.push(word(offset))
    items.push(addressWord(to) + word(mustSucceed ? 0 : 1) + word(96) + bytes)
    offset += 3 * 32 + bytes.length / 2
  }
  return {
    to: multicall3,
    data: selector + word(32) + word(calls.length) + offsets.join('') + items.join(''),
  }
}

const word = (value: number): string => uintWord(String(value))

/** Decodes the calls from data that {@link aggregate3} made, with addresses in lower case. @throws for other data */
export function callsIn(data: string): readonly EvmCall[] {
  const given = `0x${data.startsWith(selector) ? data.slice(selector.length) : ''}` as const
  const [calls] = decode([{ type: 'tuple[]', components: callParts }], given)
  return calls.map(({ target, callData }) => ({ to: target.toLowerCase(), data: callData }))
}

/**
 * Decodes the outcome of each call from a node's result of `aggregate3`.
 * @throws for a result of another form
 */
export function resultsIn(response: string): readonly { readonly success: boolean; readonly data: string }[] {
  const [results] = decode([{ type: 'tuple[]', components: resultParts }], response as Hex)
  return results.map(({ success, returnData }) => ({ success, data: returnData }))
}

const callParts = [
  { name: 'target', type: 'address' },
  { name: 'allowFailure', type: 'bool' },
  { name: 'callData', type: 'bytes' },
] as const

const resultParts = [
  { name: 'success', type: 'bool' },
  { name: 'returnData', type: 'bytes' },
] as const
