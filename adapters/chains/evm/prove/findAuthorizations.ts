import { reading, token, topics, wordOf } from '../../../../core/evm/token.ts'
import {
  type ExpectedTransfer,
  findTransfer,
  isEndOf,
  type LogEntry,
  type Receipt,
} from '../../../../core/evm/transferProof.ts'
import { addressWord } from '../../../../core/evm/words.ts'
import type { Settled } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { BLOCKS_PER_QUERY, hex, logsOf, receiptsOf, timesBefore } from './pastBlocks.ts'

const MAX_QUERIES = 100
/** Authorisations that one `eth_getLogs` asks for; nodes cap the list of topics, geth at 1,000. */
const NONCES_PER_QUERY = 100
/** A payment can't have been used on chain long before it was claimed; this much covers clocks and confirmations. */
const LOOK_BACK_SECONDS = 3_600

/** A transfer that is looked for. */
export interface Wanted {
  readonly expected: ExpectedTransfer
  /** When the payment was claimed, in ms since 1970; events long before that are not looked for. */
  readonly sinceMs: number
}

/** What the chain knows of an authorisation, whoever broadcast it. */
export type AuthorizationFate =
  | { readonly fate: 'unused' }
  /** The transfer is there. */
  | { readonly fate: 'paid'; readonly settled: Settled }
  /** The nonce is gone, and the money did not go to the payee: cancelled, or used for other terms. */
  | { readonly fate: 'spent'; readonly transaction: string; readonly block: number }
  /** Nobody can say now: the node did not answer, or the nonce is gone and the event that says how was not found. */
  | { readonly fate: 'lost' }

const lost: AuthorizationFate = { fate: 'lost' }

/**
 * Finds out what became of authorisations by the token's own state and events, as of one block: an observer may have
 * broadcast a buyer's authorisation first, alone or with others in one transaction, and that pays just as well.
 *
 * One call each says whether the nonce is used; the events of those that are come by one `eth_getLogs` for a hundred, and
 * their receipts by one call for each transaction. What the node refuses for many together is asked for one by one.
 *
 * @returns a fate for each, in order; never rejects
 */
export async function findAuthorizations(
  rpc: Rpc,
  wanted: readonly Wanted[],
  blockNumber: number,
): Promise<AuthorizationFate[]> {
  const block = hex(blockNumber)
  const states = await rpc.many(
    wanted.map(({ expected }) =>
      reading(token.authorizationState(expected.asset, expected.payer, expected.nonce), block),
    ),
  )
  const fates = states.map((answer): AuthorizationFate => {
    const used = answer.ok ? wordOf(answer.result) : undefined
    return used === 0n ? { fate: 'unused' } : lost
  })
  const isUsed = (i: number) => {
    const answer = states[i]!
    return answer.ok && (wordOf(answer.result) ?? 0n) !== 0n
  }
  const used = wanted.flatMap((one, i) => (isUsed(i) ? [{ ...one, at: i }] : []))
  if (used.length === 0) return fates

  const timed = await timesBefore(rpc, blockNumber)
  const search = used.map((one) => ({
    ...one,
    oldest:
      timed.find(({ seconds }) => seconds <= one.sinceMs / 1000 - LOOK_BACK_SECONDS)?.number ??
      timed.at(-1)!.number,
  }))
  for (const group of groupsOf(search)) {
    for (const [at, fate] of await searchEvents(rpc, group, blockNumber)) fates[at] = fate
  }
  return fates
}

interface Search extends Wanted {
  /** Its place among all that are wanted. */
  readonly at: number
  /** The block before which it is not looked for. */
  readonly oldest: number
}

/** Those of one token together; those of about the same age, so that an old one does not lengthen the search for others. */
function groupsOf(search: readonly Search[]): Search[][] {
  const byToken = Map.groupBy(search, ({ expected }) => expected.asset.toLowerCase())
  return [...byToken.values()].flatMap((all) => {
    const sorted = all.toSorted((a, b) => b.oldest - a.oldest)
    return Array.from({ length: Math.ceil(sorted.length / NONCES_PER_QUERY) }, (_, i) =>
      sorted.slice(i * NONCES_PER_QUERY, (i + 1) * NONCES_PER_QUERY),
    )
  })
}

/** Looks for the events of used authorisations of one token, newest blocks first. */
async function searchEvents(
  rpc: Rpc,
  group: readonly Search[],
  newest: number,
): Promise<Map<number, AuthorizationFate>> {
  const fates = new Map<number, AuthorizationFate>()
  let to = newest
  for (let i = 0; i < MAX_QUERIES; i++, to -= BLOCKS_PER_QUERY) {
    const open = group.filter(({ at, oldest }) => !fates.has(at) && oldest <= to)
    if (open.length === 0 || to < 0) break
    const logs = await eventsOf(rpc, open, Math.max(0, to - BLOCKS_PER_QUERY + 1), to)
    const receipts = await receiptsOf(
      rpc,
      [...logs.values()].flat().map(({ transactionHash }) => transactionHash),
    )
    for (const { at, expected } of open) {
      const found = logs.get(at)
      // The node could not say, and older blocks don't make up for it.
      if (found === undefined) fates.set(at, lost)
      else if (found.length > 0) fates.set(at, judge(found, expected, receipts))
    }
  }
  return fates
}

function judge(
  logs: readonly LogEntry[],
  expected: ExpectedTransfer,
  receipts: ReadonlyMap<string, Receipt>,
): AuthorizationFate {
  // A silent token may say it more than once; the one that moved the money counts.
  for (const { transactionHash } of logs) {
    const receipt = receipts.get(transactionHash)
    const settled = receipt && findTransfer(receipt, expected)
    if (settled !== undefined) return { fate: 'paid', settled }
  }
  // The node that had the log a moment ago lacks its receipt, or has one that knows nothing of it: it is not the one to judge by.
  if (!logs.every(({ transactionHash }) => hasEnd(receipts.get(transactionHash), expected))) return lost
  const { transactionHash, blockNumber } = receipts.get(logs[0]!.transactionHash)!
  return { fate: 'spent', transaction: transactionHash, block: Number(blockNumber) }
}

/** Whether a receipt says of an authorisation what its event says; a transaction that was reverted has said nothing at all. */
const hasEnd = (receipt: Receipt | undefined, expected: ExpectedTransfer): boolean =>
  receipt?.status === '0x1' &&
  receipt.logs.some(
    (log) =>
      log.address.toLowerCase() === expected.asset.toLowerCase() &&
      log.removed !== true &&
      isEndOf(log, expected),
  )

/** The events of each, by its place; nothing for one that the node could not be asked about. */
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
