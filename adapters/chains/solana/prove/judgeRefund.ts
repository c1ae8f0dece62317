import { base58 } from '@scure/base'
import { solanaPaymentKey } from '../../../../core/domain/payment.ts'
import type { RefundVerdict, TransferBack } from '../../../../core/ports/refundProofs.ts'
import { readAddress } from '../../../../core/solana/address.ts'
import { associatedTokenAddress } from '../../../../core/solana/associatedTokenAddress.ts'
import { readU64 } from '../../../../core/solana/bytes.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { tokenProgramBytes } from '../../../../core/solana/programs.ts'
import { type TokenBalance, tokenBalances } from '../../../../core/solana/tokenBalances.ts'

/** The parts of `getTransaction`'s answer that a refund is judged by, in the encoding `base64`. */
export interface LandedMeta {
  readonly loadedAddresses?: { readonly writable: readonly string[]; readonly readonly: readonly string[] }
  readonly innerInstructions?: readonly { readonly instructions: readonly InnerInstruction[] }[] | null
  readonly preTokenBalances?: readonly TokenBalance[] | null
  readonly postTokenBalances?: readonly TokenBalance[] | null
}

interface InnerInstruction {
  readonly programIdIndex: number
  readonly accounts: readonly number[]
  /** Base58. */
  readonly data: string
}

interface Call {
  readonly program: string
  readonly accounts: readonly (string | undefined)[]
  readonly data: Uint8Array
}

/**
 * Whether a transaction that succeeded proves that money went back: its token instructions, those that programs made
 * included, move it from the seller's associated token account to the buyer's, and the buyer's has at least the amount
 * more than before. The instructions say whose money it was; the balances, what arrived of it.
 *
 * @returns undefined when the message can not be read
 */
export function judgeRefund(
  message: Uint8Array,
  meta: LandedMeta,
  expected: TransferBack,
): RefundVerdict | undefined {
  const read = readMessage(message)
  if (read === undefined) return
  const { writable = [], readonly: readonlyKeys = [] } = meta.loadedAddresses ?? {}
  const keys = [...read.keys.map((key) => base58.encode(key)), ...writable, ...readonlyKeys]
  const outer = read.instructions.map(({ program, accounts, data }) => ({
    programIdIndex: program,
    accounts: [...accounts],
    data,
  }))
  const inner = (meta.innerInstructions ?? []).flatMap(({ instructions }) =>
    instructions.map((one) => ({ ...one, data: base58.decode(one.data) })),
  )
  const calls = [...outer, ...inner].map(
    ({ programIdIndex, accounts, data }): Call => ({
      program: keys[programIdIndex] ?? '',
      accounts: accounts.map((place) => keys[place]),
      data,
    }),
  )
  const [buyers, sellers] = [
    accountsOf(expected.to, expected.asset),
    accountsOf(expected.from, expected.asset),
  ]
  const after = tokenBalances(meta.postTokenBalances, keys, expected.asset)
  const before = tokenBalances(meta.preTokenBalances, keys, expected.asset)
  const moved = calls.flatMap((call) => readTransfer(call) ?? [])
  const back = moved.filter(({ from, to }) => buyers.has(to) && sellers.has(from))
  const arrived = [...buyers].reduce((sum, at) => sum + (after.get(at) ?? 0n) - (before.get(at) ?? 0n), 0n)

  if (after.size === 0) return { status: 'mismatch', what: 'asset' }
  if (!moved.some(({ to }) => buyers.has(to))) return { status: 'mismatch', what: 'recipient' }
  if (back.length === 0) return { status: 'mismatch', what: 'sender' }
  const sent = back.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n)
  if (sent < expected.amountAtomic || arrived < expected.amountAtomic)
    return { status: 'mismatch', what: 'amount' }
  return { status: 'proved', paymentKeys: [solanaPaymentKey(expected.network, message)] }
}

/** The wallet's associated accounts for the mint, one a token program; a mint is of one program, so one can hold it. */
function accountsOf(wallet: string, mint: string): ReadonlySet<string> {
  const [owner, token] = [readAddress(wallet), readAddress(mint)]
  if (owner === undefined || token === undefined) return new Set()
  const programs = Object.values(tokenProgramBytes)
  return new Set(programs.map((program) => base58.encode(associatedTokenAddress(owner, program, token))))
}

const tokenPrograms = new Set(Object.values(tokenProgramBytes).map((bytes) => base58.encode(bytes)))
const [transfer, transferChecked, transferFeeExtension, transferCheckedWithFee] = [3, 12, 26, 1]

/** What one instruction of a token program moves; undefined for any other. */
function readTransfer({ program, accounts, data }: Call) {
  if (!tokenPrograms.has(program)) return
  const [from, second, third] = accounts
  if (data[0] === transfer && data.length >= 9) return moving(from, second, readU64(data, 1))
  if (data[0] === transferChecked && data.length >= 10) return moving(from, third, readU64(data, 1))
  const isWithFee = data[0] === transferFeeExtension && data[1] === transferCheckedWithFee
  if (isWithFee && data.length >= 11) return moving(from, third, readU64(data, 2))
  return
}

const moving = (from: string | undefined, to: string | undefined, amountAtomic: bigint) =>
  from === undefined || to === undefined ? undefined : { from, to, amountAtomic }
