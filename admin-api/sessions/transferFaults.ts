import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, networkTitle } from '../../core/domain/network.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type {
  TransferFault,
  TransferVerdict,
  WantedTransfer,
} from '../../core/ports/chains/transferProofs.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { validationError } from '../schema/validationError.ts'

/** A block comes every few seconds; asking sooner is of no use. */
const RETRY_AFTER_SECONDS = 5

/** One way to pay the session, and what the chain says of it. */
export interface Seen {
  readonly wanted: WantedTransfer
  readonly verdict: TransferVerdict
}

/** Says the most telling of what keeps the transfer from being booked; nothing while it may still come. */
export function throwWorst(api: Api, seen: readonly Seen[]): void {
  if (seen.some(({ verdict }) => verdict.status === 'pending' && verdict.isKnown)) return
  const mismatches = seen.flatMap(({ wanted, verdict }) =>
    verdict.status === 'mismatch' ? [{ wanted, verdict }] : [],
  )
  const nearest = faults.flatMap((what) => mismatches.find(({ verdict }) => verdict.what === what) ?? [])[0]
  if (nearest !== undefined) throw mismatch(api, nearest)
  const away = seen.find(({ verdict }) => verdict.status === 'unavailable')?.verdict
  if (away?.status === 'unavailable')
    throw new TollgateError('CHAIN_UNAVAILABLE', `${away.message} Try again later.`, {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    })
  const unasked = seen.find(({ verdict }) => verdict.status === 'not_configured')
  if (unasked !== undefined && seen.every(({ verdict }) => verdict.status === 'not_configured'))
    throw new TollgateError(
      'CHAIN_NOT_CONFIGURED',
      `Transfers on ${networkTitle(unasked.wanted.network)} can’t be verified yet: ask the operator to set rpcUrls for this network.`,
    )
}

const words: Readonly<Record<TransferFault, string>> = {
  time: 'landed before the session was made',
  amount: 'moves another amount there',
  sender: 'moves it there from no other wallet',
  recipient: 'moves none of it to that wallet',
  asset: 'moves none of that token',
  failed: 'failed on chain and moved nothing',
}

/** From the one that comes closest to a payment. */
const faults = Object.keys(words) as TransferFault[]

function mismatch(
  api: Pick<Api, 'assets'>,
  {
    wanted,
    verdict,
  }: {
    readonly wanted: WantedTransfer
    readonly verdict: Extract<TransferVerdict, { status: 'mismatch' }>
  },
): TollgateError {
  const { network, asset, payTo, amountAtomic } = wanted
  const token = api.assets.find((one) => one.network === network && one.address === asset)
  const shown = (atomic: bigint) =>
    token === undefined ? String(atomic) : `${formatAmount(atomic, token.decimals, 2)} ${token.symbol}`
  const moved = verdict.movedAtomic === undefined ? '' : `, ${shown(verdict.movedAtomic)}`
  const times = verdict.atMs === undefined ? undefined : timesOf(verdict.atMs, wanted)
  return new TollgateError(
    'TRANSACTION_MISMATCH',
    `Expected exactly ${shown(amountAtomic)} (${asset}) to ${payTo} on ${networkTitle(network)}; this transaction ${times ?? words[verdict.what]}${moved}.`,
  )
}

/** Both times, and whose they are: who paid in time sees by them which clock is wrong. */
function timesOf(atMs: number, { notBeforeMs }: WantedTransfer): string {
  const landed = `landed at ${isoTime(atMs)} by the clock of the chain`
  return `${landed}, before the session was made at ${isoTime(notBeforeMs)} by the clock of the gateway`
}

export const used = () =>
  new TollgateError(
    'TRANSACTION_ALREADY_USED',
    'This transfer counts for another purchase, session or refund already. One transfer counts once.',
  )

export const notNamed = (why: string) =>
  new TollgateError(
    'TRANSACTION_NOT_NAMED',
    `${why[0]!.toUpperCase()}${why.slice(1)}. Name the transaction in txHash.`,
  )

export function malformed(ways: readonly WantedTransfer[]): TollgateError {
  const forms = [...new Set(ways.map(({ network }) => chainNameOf(network)))].map((chain) =>
    chain === 'base' ? '0x and 64 hex digits (base)' : 'the base58 of a signature of 64 bytes (solana)',
  )
  const message = `Expected a transaction: ${forms.join(', or ')}.`
  return validationError([{ path: 'txHash', code: 'format', message }])
}
