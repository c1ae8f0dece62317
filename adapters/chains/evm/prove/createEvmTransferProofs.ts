import { LRUCache } from 'lru-cache'
import { quantity } from '../../../../core/evm/quantity.ts'
import { topics } from '../../../../core/evm/token.ts'
import type { Receipt } from '../../../../core/evm/transferProof.ts'
import { addressWord } from '../../../../core/evm/words.ts'
import type {
  FoundTransfer,
  TransferProofs,
  TransferVerdict,
  WantedTransfer,
} from '../../../../core/ports/chains/transferProofs.ts'
import { resultOf } from '../../../../core/rpc/answer.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import { orUnavailable } from '../../orUnavailable.ts'
import { takingTurns } from '../../takingTurns.ts'
import { judgeTransfers } from './judgeTransfers.ts'
import { type EvmProofsOptions, openNodes } from './openNodes.ts'
import { BLOCKS_PER_QUERY, hex, logsOf, receiptIn, receiptsOf, timesBefore } from './pastBlocks.ts'

/** Windows of blocks that one look goes through, newest first: eleven hours of a chain with a block every two seconds. */
const MAX_QUERIES = 20
/** Transactions with a fitting transfer that one look judges. */
const MAX_CANDIDATES = 50
/** No reorganisation is deeper: five minutes of a chain with a block every two seconds. */
const FINAL_BLOCKS = 150
/** Transfers that deep that are not read again; some hundred bytes each. */
const MAX_KNOWN = 10_000

/**
 * Makes the proof of plain transfers on one EVM network. A transaction that is named takes two requests; without one, the
 * token's events of the payee are read in windows, one after the other, and one look at a time.
 */
export function createEvmTransferProofs(options: EvmProofsOptions): TransferProofs {
  const { network, confirmations, log, rpc } = openNodes(options)
  const inTurn = takingTurns()
  const said = orUnavailable<TransferVerdict>(network, log, 'a transfer could not be looked up')
  /** By transaction and what is wanted: who looks again and again asks no node for it again. */
  const known = new LRUCache<string, readonly FoundTransfer[]>({ max: MAX_KNOWN })

  const heightNow = async (): Promise<bigint> => quantity(await rpc.call('eth_blockNumber'))

  /** Each receipt by the wanted transfer, as far as it is deep enough and its block is the one that it names. */
  async function judge(
    receipts: readonly Receipt[],
    height: bigint,
    wanted: WantedTransfer,
  ): Promise<TransferVerdict[]> {
    const blocks = await rpc.many(
      receipts.map(({ blockNumber }) => ({ method: 'eth_getBlockByNumber', params: [blockNumber, false] })),
    )
    return receipts.map((receipt, i): TransferVerdict => {
      const pending = {
        status: 'pending',
        transaction: receipt.transactionHash.toLowerCase(),
        isKnown: true,
      } as const
      const block = resultOf(blocks[i]) as { readonly hash?: unknown; readonly timestamp?: unknown } | null
      // The node that answered this question is behind, or on another fork than the one that answered the first.
      if (block === null || block.hash !== (receipt as { readonly blockHash?: unknown }).blockHash)
        return pending
      const atMs = 1_000 * Number(quantity(block.timestamp))
      const verdict = judgeTransfers(receipt, wanted, atMs)
      const depth = height - quantity(receipt.blockNumber) + 1n
      return depth < BigInt(confirmations) ? pending : verdict
    })
  }

  /** @throws {RpcUnreachable} {RpcRefused} when no node can say */
  async function prove(wanted: WantedTransfer, transaction: string): Promise<TransferVerdict> {
    const [found, height] = await rpc.batch([
      { method: 'eth_getTransactionReceipt', params: [transaction] },
      { method: 'eth_blockNumber', params: [] },
    ])
    const receipt = receiptIn(found, transaction)
    const seenUpTo = quantity(resultOf(height))
    if (receipt === undefined)
      return { status: 'pending', transaction, isKnown: false, seenUpTo: Number(seenUpTo) }
    return (await judge([receipt], seenUpTo, wanted))[0]!
  }

  /** Transactions in which the token says that this much went to the payee, newest window first. */
  async function candidates(wanted: WantedTransfer, height: number) {
    const timed = await timesBefore(rpc, height)
    const oldest = timed.find(({ seconds }) => 1_000 * seconds < wanted.notBeforeMs)?.number ?? 0
    const found: string[] = []
    let to = height
    for (let i = 0; i < MAX_QUERIES && to >= oldest; i++, to -= BLOCKS_PER_QUERY) {
      const window = { fromBlock: hex(Math.max(oldest, to - BLOCKS_PER_QUERY + 1)), toBlock: hex(to) }
      const logs = await transfersTo(wanted, window)
      const fitting = logs.filter(
        ({ data, removed }) => removed !== true && isAmount(data, wanted.amountAtomic),
      )
      found.push(...fitting.map(({ transactionHash }) => transactionHash).reverse())
      if (found.length > MAX_CANDIDATES) break
    }
    const transactions = [...new Set(found)]
    const isComplete = to < oldest && transactions.length <= MAX_CANDIDATES
    return { transactions: transactions.slice(0, MAX_CANDIDATES), isComplete }
  }

  async function transfersTo({ asset, payTo }: WantedTransfer, window: object) {
    const filter = { address: asset, topics: [topics.transfer, null, `0x${addressWord(payTo)}`], ...window }
    const [answer] = await rpc.batch([{ method: 'eth_getLogs', params: [filter] }])
    const logs = logsOf(answer)
    if (logs !== undefined) return logs
    throw answer?.ok === false ? answer.error : new RpcUnreachable('the node answered no list of events')
  }

  async function look(wanted: WantedTransfer): Promise<TransferVerdict> {
    const height = await heightNow()
    const { transactions, isComplete } = await candidates(wanted, Number(height))
    const nameOf = (transaction: string) =>
      `${transaction.toLowerCase()} ${wanted.payTo} ${wanted.asset} ${wanted.amountAtomic}`
    const kept = transactions.flatMap((one) => known.get(nameOf(one)) ?? [])
    const unread = transactions.filter((one) => !known.has(nameOf(one)))
    const receipts = await receiptsOf(rpc, unread)
    const verdicts = await judge([...receipts.values()], height, wanted)
    const read = verdicts.flatMap((one) => (one.status === 'found' ? [one.transfers] : []))
    for (const [first, ...more] of read)
      if (first !== undefined && Number(height) - first.block >= FINAL_BLOCKS)
        known.set(nameOf(first.transaction), [first, ...more])
    const transfers = [...kept.filter(({ atMs }) => atMs >= wanted.notBeforeMs), ...read.flat()]
    if (transfers.length > 0)
      return { status: 'found', transfers: transfers.toSorted((a, b) => a.block - b.block) }
    const pending = verdicts.find(({ status }) => status === 'pending')
    if (pending !== undefined) return pending
    // A node that has the event and not its receipt is behind.
    if (receipts.size < unread.length) return { status: 'pending', transaction: null, isKnown: true }
    return { status: 'none', isComplete }
  }

  return {
    prove: (wanted, transaction) => said(() => prove(wanted, transaction), { transaction }),
    look: (wanted) => said(() => inTurn(() => look(wanted)), { payTo: wanted.payTo }),
  }
}

const isAmount = (data: string, amountAtomic: bigint): boolean =>
  /^0x[0-9a-f]{64}$/i.test(data) && BigInt(data) === amountAtomic
