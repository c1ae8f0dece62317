import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, networkTitle } from '../../core/domain/network.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type {
  TransferFault,
  TransferVerdict,
  WantedTransfer,
} from '../../core/ports/chains/transferProofs.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/responses.ts'
import { validationError } from '../http/validation.ts'

/** Seconds until a retry makes sense. A block comes every few seconds, so an earlier retry is useless. */
const RETRY_AFTER_SECONDS = 5

/** One payment method of the session, and the chain's report about it. */
export interface Seen {
  readonly wanted: WantedTransfer
  readonly verdict: TransferVerdict
}

/** Throws the most informative reason why the transfer cannot be recorded. Throws nothing while the transfer may still arrive. */
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
      `Transfers on ${networkTitle(unasked.wanted.network)} cannot be verified yet. Ask the operator to set rpcUrls for this network.`,
    )
}

const words: Readonly<Record<TransferFault, string>> = {
  time: 'landed before the session was created',
  amount: 'moves another amount there',
  x402: 'moves it there by an x402 payment, which counts for its own call',
  sender: 'does not move it there from another wallet',
  recipient: 'moves none of it to that wallet',
  asset: 'moves none of that token',
  failed: 'failed on chain and moved nothing',
}

/** The faults in order. The first is the closest to a payment, and the last is the furthest from it. */
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
    `Expected exactly ${shown(amountAtomic)} (${asset}) to ${payTo} on ${networkTitle(network)}, but this transaction ${times ?? words[verdict.what]}${moved}.`,
  )
}

/** Both times with their clocks, so that a buyer who paid in time can find out which clock is wrong. */
function timesOf(atMs: number, { notBeforeMs }: WantedTransfer): string {
  const landed = `landed at ${isoTime(atMs)} by the clock of the chain`
  return `${landed}, before the session was created at ${isoTime(notBeforeMs)} by the clock of the gateway`
}

export const used = () =>
  new TollgateError(
    'TRANSACTION_ALREADY_USED',
    'This transfer counts for another purchase, payment session or refund already. One transfer counts once.',
  )

export const notNamed = (why: string) =>
  new TollgateError(
    'TRANSACTION_NOT_NAMED',
    `${why[0]!.toUpperCase()}${why.slice(1)}. Set txHash to the transaction.`,
  )

export function malformed(methods: readonly WantedTransfer[]): TollgateError {
  const forms = [...new Set(methods.map(({ network }) => chainNameOf(network)))].map((chain) =>
    chain === 'base' ? '0x and 64 hex digits (base)' : 'the base58 of a signature of 64 bytes (solana)',
  )
  const message = `Expected a transaction: ${forms.join(', or ')}.`
  return validationError([{ path: 'txHash', code: 'format', message }])
}
