import { hash } from 'node:crypto'
import { solanaPaymentKey, transferKey } from '../../../../core/domain/payment.ts'
import type {
  FoundTransfer,
  TransferVerdict,
  WantedTransfer,
} from '../../../../core/ports/chains/transferProofs.ts'
import { tokenBalances } from '../../../../core/solana/tokenBalances.ts'
import { type LandedMeta, readMoves } from './moves.ts'
import { ownersOf } from './ownersOf.ts'
import { tokenAccountsOf } from './tokenAccountsOf.ts'

/** Where a transaction landed. */
export interface LandedAt {
  /** Its signature. */
  readonly transaction: string
  readonly slot: number
  /** Time of its block, in ms since 1970. */
  readonly atMs: number
}

/**
 * Which transfers of a transaction that succeeded pay what is wanted: its token instructions, those of programs that it
 * called included, move exactly that to the payee's associated token account, and the account has as much more as they say
 * and no less: a token that keeps a fee on the way does not pay.
 *
 * @returns undefined when the message can not be read
 * @throws {RpcUnreachable} when a node wrote amounts that are none
 */
export function judgeTransfers(
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
    .map((move, place) => ({ ...move, place }))
    .filter(({ to }) => payees.has(to) && after.has(to))
  if (got.length === 0) return { status: 'mismatch', what: 'recipient' }
  const sent = got.filter(({ from }) => !payees.has(from))
  if (sent.length === 0) return { status: 'mismatch', what: 'sender' }

  const owners = ownersOf(meta, keys)
  const arrivedAt = (account: string) => (after.get(account) ?? 0n) - (before.get(account) ?? 0n)
  const saidOf = (account: string) =>
    moves.reduce((sum, { from, to, amountAtomic: amount }) => {
      return sum + (to === account ? amount : 0n) - (from === account ? amount : 0n)
    }, 0n)
  const fitting = sent.filter(
    (move) => move.amountAtomic === amountAtomic && arrivedAt(move.to) === saidOf(move.to),
  )
  if (fitting.length === 0) {
    const movedAtomic = [...payees].reduce((sum, account) => sum + arrivedAt(account), 0n)
    return { status: 'mismatch', what: 'amount', movedAtomic }
  }
  if (atMs < wanted.notBeforeMs) return { status: 'mismatch', what: 'time', atMs }
  const digest = hash('sha256', message, 'hex')
  const transfers = fitting.map(({ from, place }): FoundTransfer => {
    // A payment of x402 is a message with one transfer; what has more is none, and each of its transfers is its own.
    const isOnly = moves.length === 1
    const event = isOnly ? '0' : `transfer:${place}`
    return {
      key: isOnly ? solanaPaymentKey(network, message) : transferKey(network, digest, event),
      nonce: isOnly ? digest : `${digest}:${place}`,
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

/** What a transaction moves to the payee's token accounts, of any token: nothing else can pay what is wanted. */
export function amountsTo(
  message: Uint8Array,
  meta: LandedMeta,
  { payTo, asset }: Pick<WantedTransfer, 'payTo' | 'asset'>,
): ReadonlySet<bigint> {
  const payees = tokenAccountsOf(payTo, asset)
  const moves = readMoves(message, meta)?.moves ?? []
  return new Set(moves.filter(({ to }) => payees.has(to)).map(({ amountAtomic }) => amountAtomic))
}
