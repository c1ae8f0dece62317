import { quantity } from '../../../../core/evm/quantity.ts'
import type { LooseAnswer } from '../../../../core/rpc/answer.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'

/** A transaction in a block, as far as it says who sent it, and what for. */
export interface SentTransaction {
  /** In lower case, as are `from` and `to`. */
  readonly transaction: string
  readonly from: string
  /** Null where it made a contract. */
  readonly to: string | null
  /** The account number. */
  readonly nonce: number
  readonly input: string
  readonly block: number
}

/** Those of these transactions that the node has in a block. Never rejects. */
export async function sentTransactions(rpc: Rpc, hashes: readonly string[]): Promise<SentTransaction[]> {
  const asked = [...new Set(hashes)]
  const answers = await rpc.many(
    asked.map((hash) => ({ method: 'eth_getTransactionByHash', params: [hash] })),
  )
  return answers.flatMap((answer, i) => {
    const sent = readSent(answer)
    return sent === undefined || sent.transaction !== asked[i]!.toLowerCase() ? [] : sent
  })
}

/** Undefined for an answer that is no transaction, or one that is in no block. */
export function readSent(answer: LooseAnswer | undefined): SentTransaction | undefined {
  if (!answer?.ok || typeof answer.result !== 'object' || answer.result === null) return
  const { hash, from, to, nonce, input, blockNumber } = answer.result as Readonly<Record<string, unknown>>
  if (typeof hash !== 'string' || typeof from !== 'string' || typeof input !== 'string') return
  try {
    return {
      ...{ transaction: hash.toLowerCase(), from: from.toLowerCase(), input },
      to: typeof to === 'string' ? to.toLowerCase() : null,
      ...{ nonce: Number(quantity(nonce)), block: Number(quantity(blockNumber)) },
    }
  } catch {
    return
  }
}
