import type { NetworkId } from '../../../../core/domain/network.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import { topics } from '../../../../core/evm/token.ts'
import { readTransferEvent } from '../../../../core/evm/transferEvent.ts'
import type { LogEntry } from '../../../../core/evm/transferProof.ts'
import { addressWord } from '../../../../core/evm/words.ts'
import type {
  MissingSettlement,
  PastQuestion,
  PastSettlements,
  PastVerdict,
} from '../../../../core/ports/chains/pastSettlements.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import { isRpcError, RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import { unlessUnavailable } from '../../unlessUnavailable.ts'
import { settledBy } from './authorizedTransfers.ts'
import { createMissingSettlements, type MissingSettlements } from './missingSettlements.ts'
import { type EvmProofsOptions, openNodes } from './openNodes.ts'
import { hex, logsOf } from './pastBlocks.ts'
import { sentTransactions } from './sentTransactions.ts'
import { unbookedNumbers } from './unbookedNumbers.ts'
import { type WindowRead, windowsBack } from './windowsBack.ts'

/** Wallets that one `eth_getLogs` asks for; nodes cap the list of topics, geth at 1,000. */
const WALLETS_PER_QUERY = 500

/**
 * Makes the look at what keys have settled on one EVM network, by what every node answers, without archived state: the
 * token's transfers to the sellers' wallets, and the uses of authorisations by those who paid them, in windows of blocks.
 * What the books lack is looked at closely: who sent it, and everything else that the same transaction settled.
 */
export function createEvmPastSettlements(options: EvmProofsOptions): PastSettlements {
  const { network, log, rpc } = openNodes(options)

  async function look(question: PastQuestion): Promise<PastVerdict> {
    const newest = Number(quantity(await rpc.call('eth_blockNumber')))
    const own = question.senders.map((sender) => sender.toLowerCase())
    const alike = await sentTransactions(rpc, question.sentAlike)
    const senders = new Set([...own, ...alike.map(({ from }) => from)])
    // Before the books are asked for anything: what is signed meanwhile is in them by then.
    const next = await Promise.all(own.map((sender) => nextNumber(rpc, sender)))
    const oldest = await blockAt(rpc, newest, question.sinceMs)
    const missing = createMissingSettlements(network, rpc, question)
    const isAny = senders.size > 0 && question.payees.length > 0
    const read = isAny
      ? await readBack({ rpc, network, question, senders, newest, oldest, missing })
      : { seen: 0, byOthers: 0, fromMs: question.sinceMs }
    const numbers = await Promise.all(
      own.map((sender, i) => unbookedNumbers({ rpc, question, missing, oldest }, sender, next[i]!)),
    )
    const faults = [
      ...(read.fault === undefined ? [] : [read.fault]),
      ...(missing.unread === 0 ? [] : [`${missing.unread} transactions could not be read`]),
    ]
    return {
      ...{ status: 'looked', missing: missing.all, seen: read.seen, byOthers: read.byOthers },
      fromMs: read.fromMs,
      numbers: numbers.flatMap((one) => one ?? []),
      ...(faults.length > 0 && { fault: faults.join('; ') }),
    }
  }

  return { look: (_, question) => unlessUnavailable(network, log, () => look(question)) }
}

interface Reading {
  readonly rpc: Rpc
  readonly network: NetworkId
  readonly question: PastQuestion
  /** In lower case. */
  readonly senders: ReadonlySet<string>
  readonly newest: number
  readonly oldest: number
  readonly missing: MissingSettlements
}

interface ReadBack {
  readonly seen: number
  readonly byOthers: number
  readonly fromMs: number
  readonly fault?: string
}

/** Holds every payment to the sellers' wallets against the books. @throws when not even the newest blocks can be read */
async function readBack(parts: Reading): Promise<ReadBack> {
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
      missing.leftOut(asked.size - sent.length)
      const ours = sent.filter((one) => senders.has(one.from))
      await missing.read(ours)
      const strange = new Set(sent.flatMap((one) => (senders.has(one.from) ? [] : one.transaction)))
      byOthers += unknown.filter(({ transaction }) => strange.has(transaction)).length
      fromMs = from === oldest ? question.sinceMs : 1_000 * (await timeOf(rpc, from))!
      question.onProgress?.(fromMs)
    }
  } catch (error) {
    // What has been read holds; a node may have forgotten what came before.
    if (fromMs === undefined || !isRpcError(error)) throw error
    return { seen, byOthers, fromMs, fault: `the node does not tell what came before: ${error.message}` }
  }
  return { seen, byOthers, fromMs: question.sinceMs }
}

/** Payments by authorisation to the sellers' wallets, in the chain's order; what is one for certain, its receipt says. */
async function paymentsIn(
  rpc: Rpc,
  network: NetworkId,
  { assets, payees }: Pick<PastQuestion, 'assets' | 'payees'>,
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
  // Anybody can put transfers of nothing into a wallet's history.
  const transfers = moved.value.filter((log) => (readTransferEvent(log)?.amountAtomic ?? 0n) > 0n)
  const payers = [...new Set(transfers.map((log) => log.topics[1]!.toLowerCase()))]
  const used = await logsFor(
    rpc,
    asking(payers, (some) => [topics.authorizationUsed, some]),
  )
  if (!used.ok) return used

  const usesIn = Map.groupBy(used.value, (log) => log.transactionHash.toLowerCase())
  const found = new Map<string, MissingSettlement>()
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
    if (use === undefined || asset === undefined) continue
    const payment = settledBy(network, asset, use, transfer)
    if (payment !== undefined && !found.has(payment.key)) found.set(payment.key, payment)
  }
  return { ok: true, value: [...found.values()] }
}

async function logsFor(rpc: Rpc, calls: readonly RpcCall[]): Promise<WindowRead<LogEntry[]>> {
  const all: LogEntry[] = []
  for (const answer of await rpc.many(calls)) {
    const logs = logsOf(answer)
    if (logs === undefined)
      return {
        ok: false,
        error: answer.ok ? new RpcUnreachable('the node answered no list of events') : answer.error,
      }
    all.push(...logs.filter(({ removed }) => removed !== true))
  }
  return { ok: true, value: all }
}

/** The first block of that time or later, found by halves: a block that the node has forgotten counts as earlier. */
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

/** In seconds since 1970; undefined for a block that the node does not have. @throws when it does not say */
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
