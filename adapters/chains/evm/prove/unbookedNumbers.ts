import type { PastQuestion, UnbookedNumbers } from '../../../../core/ports/chains/pastSettlements.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { multicall3 } from '../settle/multicall.ts'
import type { MissingSettlements } from './missingSettlements.ts'
import { hex } from './pastBlocks.ts'
import { readSent, type SentTransaction } from './sentTransactions.ts'

/** Numbers of one sender that are looked at, the highest first. */
const MOST_NUMBERS = 2_000

export interface NumbersParts {
  readonly rpc: Rpc
  readonly question: Pick<PastQuestion, 'assets' | 'numbersOf'>
  readonly missing: MissingSettlements
  /** The block before which nothing is looked for. */
  readonly oldest: number
}

/**
 * Looks at the account numbers of a sender that no payment in the books has. By them a sale is found whose seller's wallet
 * the books do not know, and it is known whether there can be more: numbers follow each other without a gap. Which
 * transaction has one, not every node tells (`eth_getTransactionBySenderAndNonce`: reth and anvil do).
 *
 * @param sender in lower case
 * @param next its next number by the chain, as of before the books were asked for anything
 * @returns undefined where all of them are accounted for, or the books can't say
 */
export async function unbookedNumbers(
  { rpc, question, missing, oldest }: NumbersParts,
  sender: string,
  next: number,
): Promise<UnbookedNumbers | undefined> {
  const booked = await question.numbersOf(sender)
  if (booked === undefined || booked.size === 0) return undefined
  const [first, lastBooked] = [Math.min(...booked), Math.max(...booked)]
  const open: number[] = []
  for (let nonce = next - 1; nonce >= first && open.length < MOST_NUMBERS; nonce--)
    if (!booked.has(nonce) && !missing.accountsFor(sender, nonce)) open.push(nonce)
  if (open.length === 0) return undefined

  const sent = await named(rpc, sender, open)
  const recent = sent.filter((one) => one !== undefined && one.block >= oldest) as SentTransaction[]
  const settled = await missing.read(recent)
  const assets = new Set(question.assets.map((asset) => asset.toLowerCase()))
  // A filler, or a settlement that did nothing, is ours.
  const isOurs = ({ to }: SentTransaction) => to === sender || to === multicall3 || assets.has(to ?? '')
  const foreign = recent.filter((one, i) => settled[i] === 0 && !isOurs(one)).length
  const unread = open.filter((nonce, i) => nonce > lastBooked && sent[i] === undefined).length
  return foreign + unread === 0 ? undefined : { sender, lastBooked, next, foreign, unread }
}

/** The transactions with these numbers, as far as the node names them. */
async function named(
  rpc: Rpc,
  sender: string,
  nonces: readonly number[],
): Promise<(SentTransaction | undefined)[]> {
  const calls = nonces.map((nonce) => ({
    method: 'eth_getTransactionBySenderAndNonce',
    params: [sender, hex(nonce)],
  }))
  // One that does not know the question is asked once.
  const [probe] = await rpc.many(calls.slice(0, 1))
  const rest = probe!.ok ? await rpc.many(calls.slice(1)) : []
  return nonces.map((nonce, i) => {
    const sent = readSent(i === 0 ? probe : rest[i - 1])
    return sent?.from === sender && sent.nonce === nonce ? sent : undefined
  })
}
