import { isUsedIn, permit2 } from '../../../../core/evm/permit2.ts'
import { addressWord, reading, topics, wordOf } from '../../../../core/evm/token.ts'
import { type ExpectedTransfer, findTransfer, mayUsePermit } from '../../../../core/evm/transferProof.ts'
import type { Settled } from '../../../../core/ports/chains/settler.ts'
import type { LooseResponse } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { AuthorizationState, Wanted } from './authorizationState.ts'
import { BLOCKS_PER_QUERY, callsOf, hex, logsOf, oldestFor, receiptsOf, timesBefore } from './pastBlocks.ts'

const lost: AuthorizationState = { kind: 'lost' }

/**
 * Finds the outcome of payments by Permit2. Permit2 has a bit for each nonce, and emits no event when a transfer uses the nonce. So the
 * search reads the token's transfers from the payer to the payee, and the call of each such transaction has to name the nonce. If the
 * nonce is used and no transfer names it, the payer has invalidated the nonce or used it for another permit.
 *
 * @param deepBlock the newest block with enough confirmations. A permit counts as spent only if its nonce was already used then
 * @returns an outcome for each, in order; never rejects
 */
export async function findPermits(
  rpc: Rpc,
  wanted: readonly Wanted[],
  blockNumber: number,
  deepBlock: number,
): Promise<AuthorizationState[]> {
  const bitmapsAt = (block: number) =>
    wanted.map(({ expected }) => reading(permit2.nonceBitmap(expected.payer, expected.nonce), hex(block)))
  const responses = await rpc.many([...bitmapsAt(blockNumber), ...bitmapsAt(deepBlock)])
  const states: AuthorizationState[] = []
  let timed: Awaited<ReturnType<typeof timesBefore>> | undefined
  for (const [i, { expected, sinceMs }] of wanted.entries()) {
    const isUsed = usedIn(responses[i]!, expected.nonce)
    if (isUsed !== true) {
      states.push(isUsed === false ? { kind: 'unused' } : lost)
      continue
    }
    timed ??= await timesBefore(rpc, blockNumber)
    const found = await findUse(rpc, expected, blockNumber, oldestFor(timed, sinceMs))
    const isDeep = usedIn(responses[wanted.length + i]!, expected.nonce) === true
    if (found === undefined) states.push(lost)
    else if (found !== 'none') states.push({ kind: 'paid', settled: found })
    else states.push(isDeep ? { kind: 'spent', transaction: '', block: deepBlock } : lost)
  }
  return states
}

/** Undefined if the node did not respond. */
function usedIn(response: LooseResponse, nonce: string): boolean | undefined {
  const bitmap = response.ok ? wordOf(response.result) : undefined
  return bitmap === undefined ? undefined : isUsedIn(bitmap, nonce)
}

/** The payment's transfer, `none` if the blocks do not have it, or undefined if the node did not return all of them. */
async function findUse(
  rpc: Rpc,
  expected: ExpectedTransfer,
  newest: number,
  oldest: number,
): Promise<Settled | 'none' | undefined> {
  const { asset, payer, payTo } = expected
  const path = [topics.transfer, `0x${addressWord(payer)}`, `0x${addressWord(payTo)}`]
  for (let to = newest; to >= oldest; to -= BLOCKS_PER_QUERY) {
    const from = Math.max(oldest, to - BLOCKS_PER_QUERY + 1)
    const filter = { address: asset, fromBlock: hex(from), toBlock: hex(to), topics: path }
    const [response] = await rpc.many([{ method: 'eth_getLogs', params: [filter] }])
    const hashes = logsOf(response)?.map(({ transactionHash }) => transactionHash)
    if (hashes === undefined) return undefined
    const calls = await callsOf(rpc, hashes)
    if (hashes.some((hash) => !calls.has(hash))) return undefined
    const using = hashes.filter((hash) => mayUsePermit(calls.get(hash)!, expected))
    const receipts = await receiptsOf(rpc, using)
    for (const hash of using) {
      const receipt = receipts.get(hash)
      if (receipt === undefined) return undefined
      const settled = findTransfer({ ...receipt, call: calls.get(hash)! }, expected)
      if (settled !== undefined) return settled
    }
  }
  return 'none'
}
