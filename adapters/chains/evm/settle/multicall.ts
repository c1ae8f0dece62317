import { decode } from 'ox/AbiParameters'
import type { EvmCall } from '../../../../core/evm/token.ts'
import { addressWord, bytesWords, uintWord } from '../../../../core/evm/words.ts'
import type { Hex } from '../rpc/hex.ts'

/** Multicall3 stands at the same address on every chain. @see https://www.multicall3.com */
export const multicall3 = '0xca11bde05977b3631167028862be2a173976ca11'

/** aggregate3((address,bool,bytes)[]) */
const selector = '0x82ad56cb'

/** One of several calls in a transaction. */
export interface CallInside extends EvmCall {
  /** Whether its failure undoes those before it, too. Absent: it fails by itself. */
  readonly mustSucceed?: boolean
}

/**
 * One call that makes several: Multicall3's `aggregate3`, written here because it is written for every transaction of many
 * payments.
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

/** The calls in the data of one that {@link aggregate3} made, addresses in lower case. @throws where it is none */
export function callsIn(data: string): readonly EvmCall[] {
  const given = `0x${data.startsWith(selector) ? data.slice(selector.length) : ''}` as const
  const [calls] = decode([{ type: 'tuple[]', components: callParts }], given)
  return calls.map(({ target, callData }) => ({ to: target.toLowerCase(), data: callData }))
}

/** What became of each call, as a node says when `aggregate3` is tried. @throws for an answer of another shape */
export function resultsIn(answer: string): readonly { readonly success: boolean; readonly data: string }[] {
  const [results] = decode([{ type: 'tuple[]', components: resultParts }], answer as Hex)
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
