import type { NetworkId } from '../../../../core/domain/network.ts'
import { solanaPaymentKey } from '../../../../core/domain/payment.ts'
import type {
  MissingSettlement,
  PastQuestion,
  PastSettlements,
  PastVerdict,
} from '../../../../core/ports/chains/pastSettlements.ts'
import { tokenBalances } from '../../../../core/solana/tokenBalances.ts'
import { unlessUnavailable } from '../../unlessUnavailable.ts'
import type { Rpc } from '../rpc/createSolanaRpc.ts'
import { effectsOf, type Landed, landedCall } from './landed.ts'
import { readMoves } from './moves.ts'
import { openNodes, type SolanaProofsOptions } from './openNodes.ts'
import { ownersOf } from './ownersOf.ts'
import { signaturesBack } from './signaturesBack.ts'
import { tokenAccountsOf } from './tokenAccountsOf.ts'

/** Transactions that are asked for together. */
const READS_AT_ONCE = 20

/**
 * Makes the look at what fee payers have settled on one Solana network: every transaction that names one, from the list that
 * nodes keep for each address. Those of a fee payer that others use as well, a facilitator's, are looked for among what
 * the sellers' token accounts got. A payment whose fee the buyer pays himself names no fee payer of ours, and can't be told
 * from a plain transfer.
 */
export function createSolanaPastSettlements(options: SolanaProofsOptions): PastSettlements {
  const { network, log, rpc } = openNodes(options)

  async function look(question: PastQuestion): Promise<PastVerdict> {
    const { assets, senders, payees, sinceMs } = question
    const alike = await landedOf(rpc, question.sentAlike)
    const feePayers = new Set([
      ...senders,
      ...alike.flatMap((one, i) => feePayerOf(one, question.sentAlike[i]!)),
    ])
    const ofSellers = () =>
      payees.flatMap((payee) => assets.flatMap((mint) => [...tokenAccountsOf(payee, mint)]))
    const listed = senders.length > 0 ? senders : feePayers.size > 0 ? ofSellers() : []
    const missing = new Map<string, MissingSettlement>()
    let [seen, unread] = [0, 0]
    const list = signaturesBack(rpc, listed, sinceMs)
    for await (const { signatures, downToMs } of list) {
      const unsold = await question.unsoldAmong(signatures)
      seen += signatures.length - unsold.length
      const found: MissingSettlement[] = []
      for (const [i, landed] of (await landedOf(rpc, unsold)).entries()) {
        const payment = paymentIn(network, landed, unsold[i]!, assets, feePayers)
        if (payment === 'unread') unread++
        else if (payment !== undefined) found.push(payment)
      }
      seen += found.length
      const lacking = await question.missingAmong(found.map(({ key }) => key))
      for (const one of found) if (lacking.has(one.key)) missing.set(one.key, one)
      question.onProgress?.(downToMs)
    }
    const faults = [...list.faults, ...(unread === 0 ? [] : [`${unread} transactions could not be read`])]
    return {
      ...{
        status: 'looked',
        missing: [...missing.values()],
        seen,
        byOthers: 0,
        fromMs: list.fromMs,
        numbers: [],
      },
      ...(faults.length > 0 && { fault: faults.join('; ') }),
    }
  }

  return { look: (_, question) => unlessUnavailable(network, log, () => look(question)) }
}

/** What these transactions did, in order; undefined where no node tells. */
async function landedOf(rpc: Rpc, signatures: readonly string[]): Promise<(Landed | undefined)[]> {
  const landed: (Landed | undefined)[] = []
  for (let i = 0; i < signatures.length; i += READS_AT_ONCE) {
    const some = signatures.slice(i, i + READS_AT_ONCE)
    const answers = await rpc.many<Landed | null>(some.map((one) => landedCall(one, 'confirmed')))
    landed.push(...answers.map((answer) => (answer.ok ? (answer.result ?? undefined) : undefined)))
  }
  return landed
}

function feePayerOf(landed: Landed | undefined, signature: string): string[] {
  const effects = landed && effectsOf(landed, signature)
  const read = effects && readMoves(effects.message, effects.meta)
  return read?.keys.slice(0, 1) ?? []
}

/** The payment that a transaction is: one transfer of a token that is taken, whose fee one of these pays and whose payer another. */
function paymentIn(
  network: NetworkId,
  landed: Landed | undefined,
  signature: string,
  assets: readonly string[],
  feePayers: ReadonlySet<string>,
): MissingSettlement | 'unread' | undefined {
  const effects = landed && effectsOf(landed, signature)
  if (effects === undefined) return 'unread'
  const { message, meta } = effects
  const read = readMoves(message, meta)
  const [move, ...others] = read?.moves ?? []
  if (read === undefined || move === undefined || others.length > 0) return undefined
  const { keys } = read
  const [feePayer = ''] = keys
  const asset = assets.find((mint) => tokenBalances(meta.postTokenBalances, keys, mint).has(move.to))
  const owners = ownersOf(meta, keys)
  const [payer = move.from, payTo = move.to] = [owners.get(move.from), owners.get(move.to)]
  if (asset === undefined || !feePayers.has(feePayer) || payer === feePayer) return undefined
  return {
    ...{ key: solanaPaymentKey(network, message), transaction: signature },
    ...{ asset, payer, payTo, amountAtomic: move.amountAtomic },
  }
}
