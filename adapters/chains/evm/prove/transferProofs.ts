import { LRUCache } from 'lru-cache'
import { BATCH_SETTLEMENT_ADDRESS } from '../../../../core/domain/channelHashes.ts'
import { evmPaymentKey, evmPaymentKeyPrefix, transferKey } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/hex.ts'
import { addressWord, readTransferEvent, topics } from '../../../../core/evm/token.ts'
import { type LogEntry, mayBeByPermit2, type Receipt } from '../../../../core/evm/transferProof.ts'
import type {
  FoundTransfer,
  TransferProofs,
  TransferVerdict,
  WantedTransfer,
} from '../../../../core/ports/chains/transferProofs.ts'
import { quantity, RpcUnreachable, resultOf } from '../../../../core/rpc/post.ts'
import { serialQueue, verdictOrUnavailable } from '../../proofs.ts'
import type { EvmNodes } from '../rpc/nodes.ts'
import { BLOCKS_PER_QUERY, hex, logsOf, receiptIn, receiptsOf, timesBefore } from './pastBlocks.ts'

/** Windows of blocks per search, newest first. They cover eleven hours of a chain with a block every two seconds. */
const MAX_QUERIES = 20
/** Maximum number of transactions with a matching transfer that a search checks. */
const MAX_CANDIDATES = 50
/** Depth in blocks that no reorganization reaches. On a chain with a block every two seconds it is five minutes. */
const FINAL_BLOCKS = 150
/**
 * Maximum number of cached transfers that are at least that deep, so that no request reads them again. Each takes a few hundred
 * bytes.
 */
const MAX_KNOWN = 10_000

/**
 * Creates the proof of plain transfers on one EVM network. If the caller names the transaction, the proof takes two requests.
 * Otherwise a search reads the token's events of the payee in windows of blocks, one after the other. Only one search runs at a
 * time.
 */
export function createEvmTransferProofs({ network, confirmations, log, rpc }: EvmNodes): TransferProofs {
  const inTurn = serialQueue()
  const orUnavailable = verdictOrUnavailable<TransferVerdict>(network, log, 'a transfer could not be checked')
  /** Cached transfers by transaction and wanted transfer, so that a repeated search does not ask a node again. */
  const known = new LRUCache<string, readonly FoundTransfer[]>({ max: MAX_KNOWN })

  const heightNow = async (): Promise<bigint> => quantity(await rpc.call('eth_blockNumber'))

  /** Checks for the wanted transfer in each receipt with enough confirmations, if the node has the receipt's block. */
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
      // The node that returned the block lags, or it follows another fork than the node that returned the receipt.
      if (block === null || block.hash !== (receipt as { readonly blockHash?: unknown }).blockHash)
        return pending
      const atMs = 1_000 * Number(quantity(block.timestamp))
      const verdict = judgeTransfers(receipt, wanted, atMs)
      const depth = height - quantity(receipt.blockNumber) + 1n
      return depth < BigInt(confirmations) ? pending : verdict
    })
  }

  /** @throws {RpcUnreachable} {RpcRefused} when no node responds */
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

  /** Transactions in which the token moved this amount to the payee, newest window first. */
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
    const [response] = await rpc.batch([{ method: 'eth_getLogs', params: [filter] }])
    const logs = logsOf(response)
    if (logs !== undefined) return logs
    throw response?.ok === false
      ? response.error
      : new RpcUnreachable('expected a list of events from the node')
  }

  async function verdictOf(wanted: WantedTransfer): Promise<TransferVerdict> {
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
    // The node has the event but not its receipt, so the node lags.
    if (receipts.size < unread.length) return { status: 'pending', transaction: null, isKnown: true }
    return { status: 'none', isComplete }
  }

  return {
    prove: (wanted, transaction) => orUnavailable(() => prove(wanted, transaction), { transaction }),
    find: (wanted) => orUnavailable(() => inTurn(() => verdictOf(wanted)), { payTo: wanted.payTo }),
  }
}

const isAmount = (data: string, amountAtomic: bigint): boolean =>
  /^0x[0-9a-f]{64}$/i.test(data) && BigInt(data) === amountAtomic

/**
 * Finds the transfers of a receipt that match the wanted one, by the token's own events. A transfer directly after an
 * `AuthorizationUsed` of its sender belongs to that authorization, as in `findTransfer`. Transfers by Permit2 and out of payment
 * channels are no plain transfers.
 *
 * @param atMs time of the receipt's block, in ms since 1970
 * @throws {RpcUnreachable} when a node returned invalid numbers
 */
export function judgeTransfers(receipt: Receipt, wanted: WantedTransfer, atMs: number): TransferVerdict {
  if (receipt.status !== '0x1') return { status: 'mismatch', what: 'failed' }
  const logs = receipt.logs.filter((log) => log.removed !== true).map((log) => ({ ...log, at: indexOf(log) }))
  logs.sort((a, b) => a.at - b.at)
  const asset = wanted.asset.toLowerCase()
  const tokenLogs = logs.flatMap((log, index) =>
    log.address.toLowerCase() === asset ? [{ log, index, moved: readTransferEvent(log) }] : [],
  )
  const payee = addressWord(wanted.payTo)
  if (tokenLogs.every(({ moved }) => moved === undefined)) return { status: 'mismatch', what: 'asset' }
  const got = tokenLogs.flatMap((one, i) =>
    one.moved?.to === payee ? [{ ...one, moved: one.moved, before: tokenLogs[i - 1]?.log }] : [],
  )
  if (got.length === 0) return { status: 'mismatch', what: 'recipient' }
  const sent = got.filter(({ moved }) => BigInt(`0x${moved.from}`) !== 0n && moved.from !== payee)
  if (sent.length === 0) return { status: 'mismatch', what: 'sender' }
  const plain = sent.filter(({ log, moved }) => !mayBeByPermit2(log, receipt) && moved.from !== channels)
  if (plain.length === 0) return { status: 'mismatch', what: 'x402' }
  const fitting = plain.filter(({ moved }) => moved.amountAtomic === wanted.amountAtomic)
  if (fitting.length === 0) {
    const movedAtomic = plain.reduce((sum, { moved }) => sum + moved.amountAtomic, 0n)
    return { status: 'mismatch', what: 'amount', movedAtomic }
  }
  if (atMs < wanted.notBeforeMs) return { status: 'mismatch', what: 'time', atMs }
  const { network } = wanted
  const transaction = receipt.transactionHash.toLowerCase()
  const transfers = fitting.map(({ moved, index, before }): FoundTransfer => {
    const from = `0x${moved.from.slice(24)}`.toLowerCase()
    // The index counts within the transaction, because a reorganization changes the log indexes of a block.
    const event = `transfer:${index}`
    const isAuthorized = before?.topics[0] === topics.authorizationUsed && isOf(before, moved.from)
    const nonce = isAuthorized ? before.topics[2]!.toLowerCase() : `${transaction}:${index}`
    return {
      key: isAuthorized
        ? evmPaymentKey(evmPaymentKeyPrefix(network, wanted.asset), from, nonce)
        : transferKey(network, transaction, event),
      nonce,
      transaction,
      event: isAuthorized ? String(before.at) : event,
      from: checksumAddress(from),
      amountAtomic: moved.amountAtomic,
      block: Number(quantity(receipt.blockNumber)),
      atMs,
    }
  })
  return { status: 'found', transfers }
}

/** The contract that pays out what sellers have earned by payment channels, for purchases that the ledger has already. */
const channels = addressWord(BATCH_SETTLEMENT_ADDRESS)

type PlacedLog = LogEntry & { readonly at: number }

const isOf = (use: PlacedLog, payerWord: string): boolean =>
  use.topics[1]?.slice(2).toLowerCase() === payerWord && use.topics[2] !== undefined

/** @throws {RpcUnreachable} for an event that is not the token's */
function indexOf({ logIndex, address, topics: words, data }: LogEntry): number {
  if (typeof address !== 'string' || !Array.isArray(words) || typeof data !== 'string')
    throw new RpcUnreachable('expected an event of the token from the node')
  return Number(quantity(logIndex))
}
