import type { NetworkId } from '../../../../core/domain/network.ts'
import { solanaPaymentKey } from '../../../../core/domain/payment.ts'
import type {
  MissingSettlement,
  PastQuery,
  PastSettlements,
  PastVerdict,
} from '../../../../core/ports/chains/pastSettlements.ts'
import { tokenBalances } from '../../../../core/rpc/post.ts'
import { pastVerdictOrUnavailable } from '../../proofs.ts'
import { openNodes, type Rpc, type SolanaProofsOptions } from '../rpc/nodes.ts'
import {
  effectsOf,
  type Landed,
  landedCall,
  ownersOf,
  readMoves,
  tokenAccountsOf,
} from './landedTransaction.ts'
import { signaturesBack } from './pastSignatures.ts'

/** Transactions per batch. */
const READS_AT_ONCE = 20

/**
 * Creates the search for past settlements of fee payers on one Solana network. Nodes keep a list of transactions for each address,
 * and the search reads every transaction in a fee payer's list. Other sellers use a facilitator's fee payer as well, so the search
 * then reads the transactions of the sellers' token accounts. If the buyer pays the fee, the payment names no fee payer of the
 * gateway and looks like a plain transfer.
 */
export function createSolanaPastSettlements(options: SolanaProofsOptions): PastSettlements {
  const { network, log, rpc } = openNodes(options)

  async function search(question: PastQuery): Promise<PastVerdict> {
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
      status: 'looked',
      missing: [...missing.values()],
      seen,
      byOthers: 0,
      fromMs: list.fromMs,
      nonces: [],
      ...(faults.length > 0 && { fault: faults.join('; ') }),
    }
  }

  return { search: (_, question) => pastVerdictOrUnavailable(network, log, () => search(question)) }
}

/** The effects of these transactions, in order. Undefined for a transaction that no node returns. */
async function landedOf(rpc: Rpc, signatures: readonly string[]): Promise<(Landed | undefined)[]> {
  const landed: (Landed | undefined)[] = []
  for (let i = 0; i < signatures.length; i += READS_AT_ONCE) {
    const some = signatures.slice(i, i + READS_AT_ONCE)
    const responses = await rpc.many<Landed | null>(some.map((one) => landedCall(one, 'confirmed')))
    landed.push(...responses.map((response) => (response.ok ? (response.result ?? undefined) : undefined)))
  }
  return landed
}

function feePayerOf(landed: Landed | undefined, signature: string): string[] {
  const effects = landed && effectsOf(landed, signature)
  const read = effects && readMoves(effects.message, effects.meta)
  return read?.keys.slice(0, 1) ?? []
}

/**
 * The payment in a transaction. The transaction must be one transfer of an accepted token, one of these accounts must pay the fee,
 * and the payer must be another account.
 */
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
    key: solanaPaymentKey(network, message),
    transaction: signature,
    asset,
    payer,
    payTo,
    amountAtomic: move.amountAtomic,
  }
}
