import { setTimeout as sleep } from 'node:timers/promises'
import type { NetworkId } from '../../../../core/domain/network.ts'
import { addressWord, readTransferEvent, topics } from '../../../../core/evm/token.ts'
import type { LogEntry } from '../../../../core/evm/transferProof.ts'
import type {
  MissingSettlement,
  PastQuery,
  PastSettlements,
  PastVerdict,
} from '../../../../core/ports/chains/pastSettlements.ts'
import { isRpcError, quantity, type RpcRefused, RpcUnreachable } from '../../../../core/rpc/post.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import { pastVerdictOrUnavailable } from '../../proofs.ts'
import type { EvmNodes } from '../rpc/nodes.ts'
import {
  createMissingSettlements,
  type MissingSettlements,
  sentTransactions,
  settledBy,
  settledByPermit,
  unaccountedNonces,
} from './missingSettlements.ts'
import { callsOf, hex, logsOf } from './pastBlocks.ts'

/** Wallets per `eth_getLogs`. Nodes limit the list of topics. Geth's limit is 1,000. */
const WALLETS_PER_QUERY = 500

/**
 * Creates the search for past settlements of keys on one EVM network. The search reads the token's transfers to the sellers'
 * wallets and the authorizations that the payers used, in windows of blocks. So it needs no archive node. For payments that the
 * ledger lacks, it also reads the sender and everything else that the same transaction settled.
 */
export function createEvmPastSettlements({ network, log, rpc }: EvmNodes): PastSettlements {
  async function search(question: PastQuery): Promise<PastVerdict> {
    const newest = Number(quantity(await rpc.call('eth_blockNumber')))
    const own = question.senders.map((sender) => sender.toLowerCase())
    const alike = await sentTransactions(rpc, question.sentAlike)
    const senders = new Set([...own, ...alike.map(({ from }) => from)])
    // The nonces are read before the ledger, which by then has every payment below them.
    const next = await Promise.all(own.map((sender) => nextNumber(rpc, sender)))
    const oldest = await blockAt(rpc, newest, question.sinceMs)
    const missing = createMissingSettlements(network, rpc, question)
    const isAny = senders.size > 0 && question.payees.length > 0
    const read = isAny
      ? await readBack({ rpc, network, question, senders, newest, oldest, missing })
      : { seen: 0, byOthers: 0, fromMs: question.sinceMs }
    const numbers = await Promise.all(
      own.map((sender, i) => unaccountedNonces({ rpc, question, missing, oldest }, sender, next[i]!)),
    )
    const faults = [
      ...(read.fault === undefined ? [] : [read.fault]),
      ...(missing.unread === 0 ? [] : [`${missing.unread} transactions could not be read`]),
    ]
    return {
      status: 'looked',
      missing: missing.all,
      seen: read.seen,
      byOthers: read.byOthers,
      fromMs: read.fromMs,
      nonces: numbers.flatMap((one) => one ?? []),
      ...(faults.length > 0 && { fault: faults.join('; ') }),
    }
  }

  return { search: (_, question) => pastVerdictOrUnavailable(network, log, () => search(question)) }
}

interface Reading {
  readonly rpc: Rpc
  readonly network: NetworkId
  readonly question: PastQuery
  /** In lower case. */
  readonly senders: ReadonlySet<string>
  readonly newest: number
  readonly oldest: number
  readonly missing: MissingSettlements
}

interface BackwardsRead {
  readonly seen: number
  readonly byOthers: number
  readonly fromMs: number
  readonly fault?: string
}

/**
 * Compares every payment that went to the sellers' wallets with the ledger.
 *
 * @throws if not even the newest blocks can be read
 */
async function readBack(parts: Reading): Promise<BackwardsRead> {
  const { rpc, network, question, senders, newest, oldest, missing } = parts
  let [seen, byOthers] = [0, 0]
  let fromMs: number | undefined
  const paid = (from: number, to: number) => paymentsIn(rpc, network, question, from, to)
  try {
    for await (const { from, value } of windowsBack(rpc, newest, oldest, paid)) {
      seen += value.length
      const lacking = await question.missingAmong(value.map(({ key }) => key))
      const unknown = value.filter(({ key }) => lacking.has(key)).reverse()
      const asked = new Set(unknown.map(({ transaction }) => transaction))
      const sent = await sentTransactions(rpc, [...asked])
      missing.skipped(asked.size - sent.length)
      const ours = sent.filter((one) => senders.has(one.from))
      await missing.read(ours)
      const strange = new Set(sent.flatMap((one) => (senders.has(one.from) ? [] : one.transaction)))
      byOthers += unknown.filter(({ transaction }) => strange.has(transaction)).length
      fromMs = from === oldest ? question.sinceMs : 1_000 * (await timeOf(rpc, from))!
      question.onProgress?.(fromMs)
    }
  } catch (error) {
    // The function returns what it has read so far, because a node may have pruned the older blocks.
    if (fromMs === undefined || !isRpcError(error)) throw error
    return { seen, byOthers, fromMs, fault: `the node does not return older blocks: ${error.message}` }
  }
  return { seen, byOthers, fromMs: question.sinceMs }
}

/** Payments by authorization or by Permit2 to the sellers' wallets, in the chain's order. Their receipts prove them. */
async function paymentsIn(
  rpc: Rpc,
  network: NetworkId,
  { assets, payees }: Pick<PastQuery, 'assets' | 'payees'>,
  from: number,
  to: number,
): Promise<WindowRead<MissingSettlement[]>> {
  const range = { address: assets, fromBlock: hex(from), toBlock: hex(to) }
  const asking = (words: readonly string[], topicsFor: (some: readonly string[]) => unknown[]) =>
    piecesOf(words).map((some) => ({
      method: 'eth_getLogs',
      params: [{ ...range, topics: topicsFor(some) }],
    }))

  const wallets = [...new Set(payees.map((payee) => `0x${addressWord(payee)}`))]
  const moved = await logsFor(
    rpc,
    asking(wallets, (some) => [topics.transfer, null, some]),
  )
  if (!moved.ok) return moved
  // Any account can add transfers of amount 0 to a wallet's history.
  const transfers = moved.value.filter((log) => (readTransferEvent(log)?.amountAtomic ?? 0n) > 0n)
  const payers = [...new Set(transfers.map((log) => log.topics[1]!.toLowerCase()))]
  const used = await logsFor(
    rpc,
    asking(payers, (some) => [topics.authorizationUsed, some]),
  )
  if (!used.ok) return used

  const usesIn = Map.groupBy(used.value, (log) => log.transactionHash.toLowerCase())
  const found = new Map<string, MissingSettlement>()
  const others: LogEntry[] = []
  const note = (payment: MissingSettlement | undefined) => {
    if (payment !== undefined && !found.has(payment.key)) found.set(payment.key, payment)
  }
  for (const transfer of transfers) {
    const { address, transactionHash } = transfer
    const before = (usesIn.get(transactionHash.toLowerCase()) ?? []).filter(
      (use) =>
        use.address.toLowerCase() === address.toLowerCase() &&
        use.topics[1]!.toLowerCase() === transfer.topics[1]!.toLowerCase() &&
        Number(use.logIndex) < Number(transfer.logIndex),
    )
    const use = before.toSorted((a, b) => Number(a.logIndex) - Number(b.logIndex)).at(-1)
    const asset = assets.find((one) => one.toLowerCase() === address.toLowerCase())
    if (use === undefined) others.push(transfer)
    else if (asset !== undefined) note(settledBy(network, asset, use, transfer))
  }

  // Permit2 emits no event, so the transaction's call shows whether a transfer is a payment.
  const hashes = others.map(({ transactionHash }) => transactionHash)
  const calls = await callsOf(rpc, hashes)
  if (hashes.some((hash) => !calls.has(hash)))
    return {
      ok: false,
      error: new RpcUnreachable('expected the transactions of all transfers from the node'),
    }
  for (const transfer of others) {
    const { transactionHash, address } = transfer
    const settled = settledByPermit(network, [address], transactionHash, calls.get(transactionHash)!)
    if (settled !== undefined && isTransferOf(transfer, settled.payment)) note(settled.payment)
  }
  return { ok: true, value: [...found.values()] }
}

const isTransferOf = (transfer: LogEntry, { payer, payTo, amountAtomic }: MissingSettlement): boolean => {
  const moved = readTransferEvent(transfer)
  return (
    moved?.from === addressWord(payer) &&
    moved.to === addressWord(payTo) &&
    moved.amountAtomic === amountAtomic
  )
}

async function logsFor(rpc: Rpc, calls: readonly RpcCall[]): Promise<WindowRead<LogEntry[]>> {
  const all: LogEntry[] = []
  for (const response of await rpc.many(calls)) {
    const logs = logsOf(response)
    if (logs === undefined)
      return {
        ok: false,
        error: response.ok ? new RpcUnreachable('expected a list of events from the node') : response.error,
      }
    all.push(...logs.filter(({ removed }) => removed !== true))
  }
  return { ok: true, value: all }
}

/** The first block at or after that time, by binary search. A block that the node has pruned counts as earlier than that time. */
async function blockAt(rpc: Rpc, newest: number, sinceMs: number): Promise<number> {
  let [low, high] = [0, newest]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const seconds = await timeOf(rpc, middle)
    if (seconds === undefined || 1_000 * seconds < sinceMs) low = middle + 1
    else high = middle
  }
  return low
}

/**
 * Time of a block in seconds since 1970. Undefined for a block that the node does not have.
 * @throws when the node does not respond
 */
async function timeOf(rpc: Rpc, block: number): Promise<number | undefined> {
  const found = await rpc.call('eth_getBlockByNumber', hex(block), false)
  if (found === null) return undefined
  return Number(quantity((found as { readonly timestamp?: unknown }).timestamp))
}

const nextNumber = async (rpc: Rpc, sender: string): Promise<number> =>
  Number(quantity(await rpc.call('eth_getTransactionCount', sender, 'latest')))

function piecesOf(words: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(words.length / WALLETS_PER_QUERY) }, (_, i) =>
    words.slice(i * WALLETS_PER_QUERY, (i + 1) * WALLETS_PER_QUERY),
  )
}

/**
 * Blocks of the first window. Providers limit the range of one `eth_getLogs`, mostly to between 500 and 10,000 blocks. By halving
 * this number the search comes close to each common limit.
 */
const MAX_BLOCKS = 8_000
/** Number of windows in a row that must succeed before the search tries a wider one. */
const WIDER_AFTER = 4
/** First wait for a node that is busy or silent, in ms. It doubles each time, up to the maximum. */
const WAIT_MS = 250
const MAX_WAIT_MS = 4_000
/** Wait before a single failed block is requested again, in ms. */
const SINGLE_WAIT_MS = 2_000
/** Attempts to reach a node that does not respond at all. */
const MAX_TRIES = 5

/** The result of reading a window. An error of the node may mean that the window is too large. */
export type WindowRead<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: RpcRefused | RpcUnreachable }

export interface Window<T> {
  readonly from: number
  readonly to: number
  readonly value: T
}

/**
 * Reads blocks in windows, newest first. After any error, the search reads the window in halves, because nodes limit blocks,
 * events, bytes or seconds, each with another message. If a node does not respond at all, the search waits and finally gives up.
 *
 * @throws {RpcRefused} {RpcUnreachable} for a single block that fails, and when no node responds
 */
export async function* windowsBack<T>(
  rpc: Rpc,
  newest: number,
  oldest: number,
  read: (from: number, to: number) => Promise<WindowRead<T>>,
): AsyncGenerator<Window<T>> {
  let width = MAX_BLOCKS
  let widerAfter = WIDER_AFTER
  let answered = 0
  let isWider = false
  let faults = 0
  let singles = 0
  for (let to = newest; to >= oldest; ) {
    const from = Math.max(oldest, to - width + 1)
    const found = await read(from, to)
    if (found.ok) {
      yield { from, to, value: found.value }
      to = from - 1
      faults = singles = 0
      isWider = ++answered >= widerAfter && width < MAX_BLOCKS
      if (!isWider) continue
      width = Math.min(MAX_BLOCKS, 2 * width)
      answered = 0
      continue
    }
    // Doubled, so that the search does not exceed a fixed limit again every few windows.
    if (isWider) widerAfter *= 2
    isWider = false
    // Either the request was too large, so halving helps, or requests were too frequent, so waiting helps.
    if (found.error instanceof RpcUnreachable) await sleep(waitMs(faults++))
    await whenItAnswers(rpc, found.error)
    if (from === to && ++singles > 1) throw found.error
    // A lagging node may not have the newest block yet.
    if (from === to) await sleep(SINGLE_WAIT_MS)
    width = Math.ceil((to - from + 1) / 2)
    answered = 0
  }
}

const waitMs = (faults: number): number => Math.min(MAX_WAIT_MS, WAIT_MS * 2 ** faults)

/**
 * Waits until a node responds to the smallest request.
 * @throws the fault if no node does
 */
async function whenItAnswers(rpc: Rpc, fault: Error): Promise<void> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    try {
      await rpc.call('eth_blockNumber')
      return
    } catch {
      await sleep(waitMs(tries))
    }
  }
  throw fault
}
