import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { solanaPaymentKey, transferKey } from '../../../../core/domain/payment.ts'
import type {
  FoundTransfer,
  TransferProofs,
  TransferVerdict,
  WantedTransfer,
} from '../../../../core/ports/chains/transferProofs.ts'
import { RpcUnreachable, tokenBalances } from '../../../../core/rpc/post.ts'
import { serialQueue, verdictOrUnavailable } from '../../proofs.ts'
import { openNodes, type SolanaProofsOptions } from '../rpc/nodes.ts'
import { hasReached, queryStatuses, type SignatureStatus } from '../settle/confirmations.ts'
import {
  effectsOf,
  type Landed,
  type LandedMeta,
  landedCall,
  ownersOf,
  readMoves,
  tokenAccountsOf,
} from './landedTransaction.ts'

/** Signatures per request. Nodes return no more. */
const PAGE_SIZE = 1_000
/** Maximum number of transactions that a search reads, newest first, because any account can send any number. */
const MAX_READS = 100
/** Maximum number of final transactions whose effect for a payee is cached. Each takes a few hundred bytes. */
const MAX_KNOWN = 10_000
/** Transactions per batch. */
const READS_AT_ONCE = 20

/**
 * Creates the proof of plain transfers on one Solana network. If the caller names the transaction, the proof takes two requests.
 * Otherwise a search reads the latest transactions of the payee's token account. Only one search runs at a time.
 */
export function createSolanaTransferProofs(options: SolanaProofsOptions): TransferProofs {
  const { network, commitment, log, rpc } = openNodes(options)
  const inTurn = serialQueue()
  const orUnavailable = verdictOrUnavailable<TransferVerdict>(network, log, 'a transfer could not be checked')
  const known = new LRUCache<string, Known>({ max: MAX_KNOWN })

  /** @throws {RpcUnreachable} when the node does not return the transaction's effects */
  function judge(landed: Landed | null, wanted: WantedTransfer, transaction: string): TransferVerdict {
    // The node of this response may lag behind the node that reported the transaction.
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
    if (verdict === undefined) throw new RpcUnreachable(`the node does not return what ${transaction} did`)
    return verdict
  }

  /** @throws {RpcUnreachable} {RpcRefused} when no node responds */
  async function prove(wanted: WantedTransfer, transaction: string): Promise<TransferVerdict> {
    const { value, context } = await queryStatuses(rpc, [transaction], true)
    const [status] = value
    if (status == null) return { status: 'pending', transaction, isKnown: false, seenUpTo: context.slot }
    if (!hasReached(status, commitment)) return { status: 'pending', transaction, isKnown: true }
    if (status.err !== null) return { status: 'mismatch', what: 'failed' }
    const { method, params } = landedCall(transaction, commitment)
    return judge(await rpc.call<Landed | null>(method, ...params), wanted, transaction)
  }

  /** Transactions that succeeded on the payee's token accounts since then, newest first. A missing account has no transactions. */
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

  /**
   * Caches a final transaction, which never changes, so that repeated searches do not read it again.
   * @returns whether it is cached now
   */
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

  async function verdictOf(wanted: WantedTransfer): Promise<TransferVerdict> {
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
      // The search also reads transactions that are not final. A transfer in one of these is reported as pending.
      const responses = await rpc.many<Landed | null>(
        few.map(({ signature }) => landedCall(signature, 'confirmed')),
      )
      for (const [n, one] of few.entries()) {
        const { signature, ...status } = one
        const response = responses[n]!
        // An unreadable transaction must not hide another, because any account can send the payee an unusual transaction.
        try {
          if (!response.ok) throw response.error
          const verdict = judge(response.result, wanted, signature)
          if (status.confirmationStatus === 'finalized' && keep(one, response.result, wanted, verdict))
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
    // The next search need not read the cached transactions again, so it reaches the others.
    if (unread.length > MAX_READS && hasLearned)
      return { status: 'pending', transaction: null, isKnown: true }
    return pending ?? { status: 'none', isComplete: isComplete && fault === undefined }
  }

  return {
    prove: (wanted, transaction) => orUnavailable(() => prove(wanted, transaction), { transaction }),
    find: (wanted) => orUnavailable(() => inTurn(() => verdictOf(wanted)), { payTo: wanted.payTo }),
  }
}

/** An entry of `getSignaturesForAddress`. */
interface Signed extends SignatureStatus {
  readonly signature: string
  readonly blockTime: number | null
}

/** The effects of a final transaction for a payee. */
interface Known {
  /** The amounts that the transaction moved to the payee, of any token. */
  readonly amounts: ReadonlySet<bigint>
  /** The transfers by their exact amount, for the amounts that callers requested. */
  readonly paid: Map<bigint, readonly FoundTransfer[]>
}

const nameOf = (signature: string, { payTo, asset }: WantedTransfer) => `${signature} ${payTo} ${asset}`

/** The position of a transaction on chain. */
interface LandedAt {
  /** The transaction's signature. */
  readonly transaction: string
  readonly slot: number
  /** Time of the transaction's block, in ms since 1970. */
  readonly atMs: number
}

/**
 * Finds the transfers of a transaction that match the wanted one. The transaction succeeded. Its token instructions, including
 * those of called programs, must move exactly that amount to the payee's associated token account. The account's balance must grow
 * by exactly the sum of the transfers, because a token with a fee delivers less.
 *
 * @returns undefined if the message cannot be read
 * @throws {RpcUnreachable} when a node returned invalid amounts
 */
function judgeTransfers(
  message: Uint8Array,
  meta: LandedMeta,
  wanted: WantedTransfer,
  { transaction, slot, atMs }: LandedAt,
): TransferVerdict | undefined {
  const read = readMoves(message, meta)
  if (read === undefined) return
  const { keys, moves } = read
  const { network, asset, amountAtomic } = wanted
  const payees = tokenAccountsOf(wanted.payTo, asset)
  const after = tokenBalances(meta.postTokenBalances, keys, asset)
  const before = tokenBalances(meta.preTokenBalances, keys, asset)
  if (after.size === 0) return { status: 'mismatch', what: 'asset' }
  const got = moves
    .map((move, index) => ({ ...move, index }))
    .filter(({ to }) => payees.has(to) && after.has(to))
  if (got.length === 0) return { status: 'mismatch', what: 'recipient' }
  const sent = got.filter(({ from }) => !payees.has(from))
  if (sent.length === 0) return { status: 'mismatch', what: 'sender' }

  const owners = ownersOf(meta, keys)
  const arrivedAt = (account: string) => (after.get(account) ?? 0n) - (before.get(account) ?? 0n)
  const amountOf = (account: string) =>
    moves.reduce((sum, { from, to, amountAtomic: amount }) => {
      return sum + (to === account ? amount : 0n) - (from === account ? amount : 0n)
    }, 0n)
  const fitting = sent.filter(
    (move) => move.amountAtomic === amountAtomic && arrivedAt(move.to) === amountOf(move.to),
  )
  if (fitting.length === 0) {
    const movedAtomic = [...payees].reduce((sum, account) => sum + arrivedAt(account), 0n)
    return { status: 'mismatch', what: 'amount', movedAtomic }
  }
  if (atMs < wanted.notBeforeMs) return { status: 'mismatch', what: 'time', atMs }
  const digest = hash('sha256', message, 'hex')
  const transfers = fitting.map(({ from, index }): FoundTransfer => {
    // An x402 payment is a message with one transfer. In a message with several, each transfer counts on its own.
    const isOnly = moves.length === 1
    const event = isOnly ? '0' : `transfer:${index}`
    return {
      key: isOnly ? solanaPaymentKey(network, message) : transferKey(network, digest, event),
      nonce: isOnly ? digest : `${digest}:${index}`,
      transaction,
      event,
      from: owners.get(from) ?? from,
      amountAtomic,
      block: slot,
      atMs,
    }
  })
  return { status: 'found', transfers }
}

/**
 * The amounts that a transaction moves to the payee's token accounts, of any token. Only a transfer of one of these amounts can be
 * the wanted one.
 */
function amountsTo(
  message: Uint8Array,
  meta: LandedMeta,
  { payTo, asset }: Pick<WantedTransfer, 'payTo' | 'asset'>,
): ReadonlySet<bigint> {
  const payees = tokenAccountsOf(payTo, asset)
  const moves = readMoves(message, meta)?.moves ?? []
  return new Set(moves.filter(({ to }) => payees.has(to)).map(({ amountAtomic }) => amountAtomic))
}
