import { LRUCache } from 'lru-cache'
import type {
  FoundTransfer,
  TransferProofs,
  TransferVerdict,
  WantedTransfer,
} from '../../../../core/ports/chains/transferProofs.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'
import { orUnavailable } from '../../orUnavailable.ts'
import { takingTurns } from '../../takingTurns.ts'
import { askStatuses, hasReached, type SignatureStatus } from '../settle/confirm.ts'
import { amountsTo, judgeTransfers } from './judgeTransfers.ts'
import { effectsOf, type Landed, landedCall } from './landed.ts'
import { openNodes, type SolanaProofsOptions } from './openNodes.ts'
import { tokenAccountsOf } from './tokenAccountsOf.ts'

/** Signatures that one question answers: the most that nodes give. */
const PAGE_SIZE = 1_000
/** Transactions that are read in one look, newest first: an account can get as many as anybody likes. */
const MAX_READS = 100
/** Final transactions of which it is known what they did for a payee; some hundred bytes each. */
const MAX_KNOWN = 10_000
/** Transactions that are asked for together. */
const READS_AT_ONCE = 20

/**
 * Makes the proof of plain transfers on one Solana network. A transaction that is named takes two requests; without one, the
 * latest transactions of the payee's token account are read, one look at a time.
 */
export function createSolanaTransferProofs(options: SolanaProofsOptions): TransferProofs {
  const { network, commitment, log, rpc } = openNodes(options)
  const inTurn = takingTurns()
  const said = orUnavailable<TransferVerdict>(network, log, 'a transfer could not be looked up')
  const known = new LRUCache<string, Known>({ max: MAX_KNOWN })

  /** @throws {RpcUnreachable} when the node does not tell what the transaction did */
  function judge(landed: Landed | null, wanted: WantedTransfer, transaction: string): TransferVerdict {
    // The node that answered this question may be behind the one that said that it is there.
    if (landed === null) return { status: 'pending', transaction, isKnown: true }
    const { slot, blockTime } = landed
    const effects = effectsOf(landed, transaction)
    const verdict =
      effects !== undefined && blockTime !== null && Number.isSafeInteger(blockTime)
        ? judgeTransfers(effects.message, effects.meta, wanted, {
            transaction,
            slot,
            atMs: 1_000 * blockTime,
          })
        : undefined
    if (verdict === undefined) throw new RpcUnreachable(`the node does not tell what ${transaction} did`)
    return verdict
  }

  /** @throws {RpcUnreachable} {RpcRefused} when no node can say */
  async function prove(wanted: WantedTransfer, transaction: string): Promise<TransferVerdict> {
    const { value, context } = await askStatuses(rpc, [transaction], true)
    const [status] = value
    if (status == null) return { status: 'pending', transaction, isKnown: false, seenUpTo: context.slot }
    if (!hasReached(status, commitment)) return { status: 'pending', transaction, isKnown: true }
    if (status.err !== null) return { status: 'mismatch', what: 'failed' }
    const { method, params } = landedCall(transaction, commitment)
    return judge(await rpc.call<Landed | null>(method, ...params), wanted, transaction)
  }

  /** What succeeded on the payee's token accounts since then, newest first; an account that is not there has nothing. */
  async function candidates({ payTo, asset, notBeforeMs }: WantedTransfer) {
    const found: Signed[] = []
    let isComplete = true
    for (const account of tokenAccountsOf(payTo, asset)) {
      const list = await rpc.call<Signed[]>('getSignaturesForAddress', account, {
        limit: PAGE_SIZE,
        commitment: 'confirmed',
      })
      const isOld = ({ blockTime }: Signed) => blockTime !== null && 1_000 * blockTime < notBeforeMs
      isComplete &&= list.length < PAGE_SIZE || list.some(isOld)
      found.push(...list.filter((one) => one.err === null && !isOld(one)))
    }
    return { found, isComplete }
  }

  /** What is final stays as it is: who looks again and again asks no node for it again. @returns whether it is known now */
  function keep(
    { signature }: Signed,
    landed: Landed | null,
    wanted: WantedTransfer,
    verdict: TransferVerdict,
  ): boolean {
    const effects = landed && effectsOf(landed, signature)
    if (effects == null || (verdict.status === 'mismatch' && verdict.what === 'time')) return false
    const name = nameOf(signature, wanted)
    const kept = known.get(name) ?? {
      amounts: amountsTo(effects.message, effects.meta, wanted),
      paid: new Map(),
    }
    if (kept.amounts.has(wanted.amountAtomic))
      kept.paid.set(wanted.amountAtomic, verdict.status === 'found' ? verdict.transfers : [])
    known.set(name, kept)
    return true
  }

  async function look(wanted: WantedTransfer): Promise<TransferVerdict> {
    const { found, isComplete: isAll } = await candidates(wanted)
    const verdicts: TransferVerdict[] = []
    let fault: unknown
    const unread: Signed[] = []
    for (const one of found) {
      const kept = known.get(nameOf(one.signature, wanted))
      if (kept !== undefined && !kept.amounts.has(wanted.amountAtomic)) continue
      const transfers = kept?.paid.get(wanted.amountAtomic)
      if (transfers === undefined) unread.push(one)
      else if (transfers.length > 0) verdicts.push({ status: 'found', transfers })
    }
    const isComplete = isAll && unread.length <= MAX_READS
    let hasLearned = false
    const read = unread.slice(0, MAX_READS)
    for (let i = 0; i < read.length; i += READS_AT_ONCE) {
      const few = read.slice(i, i + READS_AT_ONCE)
      // Which of them pays is known before it is final: then it is said to be on its way.
      const answers = await rpc.many<Landed | null>(
        few.map(({ signature }) => landedCall(signature, 'confirmed')),
      )
      for (const [n, one] of few.entries()) {
        const { signature, ...status } = one
        const answer = answers[n]!
        // One that can not be read hides no other one: anybody can send something odd to the payee.
        try {
          if (!answer.ok) throw answer.error
          const verdict = judge(answer.result, wanted, signature)
          if (status.confirmationStatus === 'finalized' && keep(one, answer.result, wanted, verdict))
            hasLearned = true
          const isEarly = verdict.status === 'found' && !hasReached(status, commitment)
          verdicts.push(isEarly ? { status: 'pending', transaction: signature, isKnown: true } : verdict)
        } catch (error) {
          fault = error
        }
      }
    }
    const transfers = verdicts.flatMap((one) => (one.status === 'found' ? one.transfers : []))
    if (transfers.length > 0)
      return { status: 'found', transfers: transfers.toSorted((a, b) => a.block - b.block) }
    const isAnyRead = verdicts.length > 0 || unread.length < found.length
    if (fault !== undefined && !isAnyRead) throw fault
    const pending = verdicts.find(({ status }) => status === 'pending')
    // The next look need not read these again, and comes to the others.
    if (unread.length > MAX_READS && hasLearned)
      return { status: 'pending', transaction: null, isKnown: true }
    return pending ?? { status: 'none', isComplete: isComplete && fault === undefined }
  }

  return {
    prove: (wanted, transaction) => said(() => prove(wanted, transaction), { transaction }),
    look: (wanted) => said(() => inTurn(() => look(wanted)), { payTo: wanted.payTo }),
  }
}

/** One of `getSignaturesForAddress`. */
interface Signed extends SignatureStatus {
  readonly signature: string
  readonly blockTime: number | null
}

/** What a final transaction did for a payee. */
interface Known {
  /** That it moved there, of any token. */
  readonly amounts: ReadonlySet<bigint>
  /** By amount, the transfers of exactly that, as far as somebody asked. */
  readonly paid: Map<bigint, readonly FoundTransfer[]>
}

const nameOf = (signature: string, { payTo, asset }: WantedTransfer) => `${signature} ${payTo} ${asset}`
