import { isPermit2Nonce } from '../../../../core/evm/permit2.ts'
import { addressWord, reading, token, topics, wordOf } from '../../../../core/evm/token.ts'
import {
  type ExpectedTransfer,
  findTransfer,
  isEndOf,
  type LogEntry,
  type Receipt,
  readReceipt,
} from '../../../../core/evm/transferProof.ts'
import type { SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { reasons } from '../reasons.ts'
import type { AuthorizationState, Wanted } from './authorizationState.ts'
import { BLOCKS_PER_QUERY, hex, logsOf, oldestFor, receiptsOf, timesBefore } from './pastBlocks.ts'
import { findPermits } from './permits.ts'

const MAX_QUERIES = 100
/** Authorizations per `eth_getLogs`. Nodes limit the list of topics. Geth's limit is 1,000. */
const NONCES_PER_QUERY = 100
const lost: AuthorizationState = { kind: 'lost' }

/**
 * Finds the outcome of authorizations as of one block, by EIP-3009 or by Permit2.
 *
 * @param deepBlock the newest block with enough confirmations. A permit counts as spent only if it was already used then
 * @returns an outcome for each, in order; never rejects
 */
export async function findAuthorizations(
  rpc: Rpc,
  wanted: readonly Wanted[],
  blockNumber: number,
  deepBlock = blockNumber,
): Promise<AuthorizationState[]> {
  const isPermit = ({ expected }: Wanted): boolean => isPermit2Nonce(expected.nonce)
  const [permits, transfers] = await Promise.all([
    findPermits(rpc, wanted.filter(isPermit), blockNumber, deepBlock),
    findTransfers(
      rpc,
      wanted.filter((one) => !isPermit(one)),
      blockNumber,
    ),
  ])
  return wanted.map((one) => (isPermit(one) ? permits : transfers).shift()!)
}

/**
 * Finds the outcome of authorizations of EIP-3009 by the token's own state and events, as of one block. The sender does not matter, because a
 * payment is equally valid if an observer broadcast the buyer's authorization first. One call per authorization reads whether its
 * nonce is used. One `eth_getLogs` per hundred used nonces reads their events, and one call per transaction reads its receipt. If a
 * node refuses a combined request, its parts are requested one by one.
 *
 * @returns an outcome for each, in order; never rejects
 */
async function findTransfers(
  rpc: Rpc,
  wanted: readonly Wanted[],
  blockNumber: number,
): Promise<AuthorizationState[]> {
  const block = hex(blockNumber)
  const states = await rpc.many(
    wanted.map(({ expected }) =>
      reading(token.authorizationState(expected.asset, expected.payer, expected.nonce), block),
    ),
  )
  const verdicts = states.map((response): AuthorizationState => {
    const used = response.ok ? wordOf(response.result) : undefined
    return used === 0n ? { kind: 'unused' } : lost
  })
  const isUsed = (i: number) => {
    const response = states[i]!
    return response.ok && (wordOf(response.result) ?? 0n) !== 0n
  }
  const used = wanted.flatMap((one, i) => (isUsed(i) ? [{ ...one, at: i }] : []))
  if (used.length === 0) return verdicts

  const timed = await timesBefore(rpc, blockNumber)
  const search = used.map((one) => ({ ...one, oldest: oldestFor(timed, one.sinceMs) }))
  for (const group of groupsOf(search)) {
    for (const [at, verdict] of await searchEvents(rpc, group, blockNumber)) verdicts[at] = verdict
  }
  return verdicts
}

interface Search extends Wanted {
  /** The search's index in the caller's list. */
  readonly at: number
  /** Blocks before this one are not searched. */
  readonly oldest: number
}

/** Groups the searches by token and by age, so that an old search does not extend the range of the others. */
function groupsOf(search: readonly Search[]): Search[][] {
  const byToken = Map.groupBy(search, ({ expected }) => expected.asset.toLowerCase())
  return [...byToken.values()].flatMap((all) => {
    const sorted = all.toSorted((a, b) => b.oldest - a.oldest)
    return Array.from({ length: Math.ceil(sorted.length / NONCES_PER_QUERY) }, (_, i) =>
      sorted.slice(i * NONCES_PER_QUERY, (i + 1) * NONCES_PER_QUERY),
    )
  })
}

/** Searches for the events of used authorizations of one token, newest blocks first. */
async function searchEvents(
  rpc: Rpc,
  group: readonly Search[],
  newest: number,
): Promise<Map<number, AuthorizationState>> {
  const verdicts = new Map<number, AuthorizationState>()
  let to = newest
  for (let i = 0; i < MAX_QUERIES; i++, to -= BLOCKS_PER_QUERY) {
    const open = group.filter(({ at, oldest }) => !verdicts.has(at) && oldest <= to)
    if (open.length === 0 || to < 0) break
    const logs = await eventsOf(rpc, open, Math.max(0, to - BLOCKS_PER_QUERY + 1), to)
    const receipts = await receiptsOfUses(rpc, [...logs.values()].flat())
    for (const { at, expected } of open) {
      const found = logs.get(at)
      // The node failed for these blocks, and older blocks cannot replace its response.
      if (found === undefined) verdicts.set(at, lost)
      else if (found.length > 0) verdicts.set(at, judge(found, expected, receipts))
    }
  }
  return verdicts
}

async function receiptsOfUses(rpc: Rpc, uses: readonly LogEntry[]): Promise<Map<string, Receipt>> {
  const unanswered = new Set<string>()
  const receipts = await receiptsOf(
    rpc,
    uses.map(({ transactionHash }) => transactionHash),
    unanswered,
  )
  if (unanswered.size === 0) return receipts
  const others = uses.filter(({ transactionHash }) => unanswered.has(transactionHash))
  return new Map([...receipts, ...(await authorizationReceipts(rpc, others))])
}

function judge(
  logs: readonly LogEntry[],
  expected: ExpectedTransfer,
  receipts: ReadonlyMap<string, Receipt>,
): AuthorizationState {
  // A token may emit the event more than once. Only the event whose transaction moved the money counts.
  for (const { transactionHash } of logs) {
    const receipt = receipts.get(transactionHash)
    const settled = receipt && findTransfer(receipt, expected)
    if (settled !== undefined) return { kind: 'paid', settled }
  }
  // The node returned the log but no receipt with the event, so the node is unreliable.
  if (!logs.every(({ transactionHash }) => hasEnd(receipts.get(transactionHash), expected))) return lost
  const { transactionHash, blockNumber } = receipts.get(logs[0]!.transactionHash)!
  return { kind: 'spent', transaction: transactionHash, block: Number(blockNumber) }
}

/** Whether a receipt has the authorization's event. The receipt of a reverted transaction has no events. */
const hasEnd = (receipt: Receipt | undefined, expected: ExpectedTransfer): boolean =>
  receipt?.status === '0x1' &&
  receipt.logs.some(
    (log) =>
      log.address.toLowerCase() === expected.asset.toLowerCase() &&
      log.removed !== true &&
      isEndOf(log, expected),
  )

/** The events of each authorization, by its index. Undefined for an authorization if the node did not respond. */
async function eventsOf(
  rpc: Rpc,
  search: readonly Search[],
  from: number,
  to: number,
): Promise<Map<number, LogEntry[]>> {
  const filter = (of: readonly Search[]) => ({
    method: 'eth_getLogs',
    params: [
      {
        address: of[0]!.expected.asset,
        fromBlock: hex(from),
        toBlock: hex(to),
        topics: [
          [topics.authorizationUsed, topics.authorizationCanceled],
          [...new Set(of.map(({ expected }) => payerTopic(expected)))],
          [...new Set(of.map(({ expected }) => expected.nonce))],
        ],
      },
    ],
  })
  const [together] = await rpc.many([filter(search)])
  const all = logsOf(together)
  if (all !== undefined || search.length === 1) {
    if (all === undefined) return new Map()
    const byUse = Map.groupBy(all, (log) => `${log.topics[1]} ${log.topics[2]}`.toLowerCase())
    return new Map(
      search.map(({ at, expected }) => [
        at,
        byUse.get(`${payerTopic(expected)} ${expected.nonce}`.toLowerCase()) ?? [],
      ]),
    )
  }
  const single = await rpc.many(search.map((one) => filter([one])))
  return new Map(
    search.flatMap(({ at }, i) => {
      const logs = logsOf(single[i])
      return logs === undefined ? [] : [[at, logs]]
    }),
  )
}

const payerTopic = ({ payer }: ExpectedTransfer): string => `0x${addressWord(payer)}`

/**
 * Builds receipts from the token's events, for transactions whose receipt no node returns. A third party can land a buyer's
 * authorization in a transaction with so many other events that the receipt exceeds the length limit of responses. A transfer
 * counts only if its log index directly follows the index of the authorization's use, because the query does not return other
 * contracts' events in between.
 *
 * @param uses the events that end the authorizations, all of one token
 * @returns by transaction hash, without the transactions that the node does not have
 */
async function authorizationReceipts(rpc: Rpc, uses: readonly LogEntry[]): Promise<Map<string, Receipt>> {
  const byTransaction = [...Map.groupBy(uses, ({ transactionHash }) => transactionHash)]
  const responses = await rpc.many(
    byTransaction.map(([, own]) => {
      const [{ address, blockNumber }] = own as [LogEntry]
      const payers = [...new Set(own.map(({ topics: [, payer] }) => payer))]
      const range = { fromBlock: blockNumber, toBlock: blockNumber }
      return {
        method: 'eth_getLogs',
        params: [{ address, ...range, topics: [[...ends, topics.transfer], payers] }],
      }
    }),
  )
  const receipts = new Map<string, Receipt>()
  for (const [i, [transactionHash, own]] of byTransaction.entries()) {
    const { blockNumber } = own[0]!
    const isOwn = (log: LogEntry) => log.transactionHash.toLowerCase() === transactionHash.toLowerCase()
    const logs = withoutLooseTransfers((logsOf(responses[i]) ?? []).filter(isOwn))
    // A reverted transaction has no events.
    const receipt = readReceipt({ transactionHash, blockNumber, status: '0x1', logs }, transactionHash)
    if (receipt !== undefined) receipts.set(transactionHash, receipt)
  }
  return receipts
}

const ends = [topics.authorizationUsed, topics.authorizationCanceled]

const nameOf = (log: LogEntry | undefined): string | undefined => log?.topics[0]?.toLowerCase()

function withoutLooseTransfers(logs: readonly LogEntry[]): LogEntry[] {
  const at = new Map(logs.map((log) => [Number(log.logIndex), log]))
  return logs.filter(
    (log) =>
      nameOf(log) !== topics.transfer ||
      nameOf(at.get(Number(log.logIndex) - 1)) === topics.authorizationUsed,
  )
}

/** The possible outcomes of a mined transaction. */
export type Judged = Exclude<SettleOutcome, { readonly status: 'rejected' }>

/** The outcome of a payment, given its authorization's state. Undefined while the authorization is unused. */
export function outcomeOf(found: AuthorizationState, transaction: string): Judged | undefined {
  switch (found.kind) {
    case 'paid':
      return found.settled
    case 'lost':
      return { status: 'pending', transaction, reason: reasons.pending }
    case 'spent':
      return {
        status: 'failed_final',
        transaction,
        reason: found.transaction === '' ? reasons.permit2Nonce : reasons.nonceUsed,
        message: `The authorization was cancelled or used for other terms${found.transaction && `, in ${found.transaction}`}.`,
      }
    case 'unused':
      return undefined
  }
}
