import { base58 } from '@scure/base'
import { readU64 } from '../../../../core/solana/bytes.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { tokenProgramBytes } from '../../../../core/solana/programs.ts'
import type { TokenBalance } from '../../../../core/solana/tokenBalances.ts'

/** The parts of `getTransaction`'s answer that transfers are judged by, in the encoding `base64`. */
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

/** What one instruction of a token program moves, between token accounts; of any token. */
export interface Move {
  readonly from: string
  readonly to: string
  readonly amountAtomic: bigint
}

/**
 * Every transfer of tokens that a transaction made, those of programs that it called included, and its accounts in its own
 * order. Undefined when the message can not be read.
 */
export function readMoves(
  message: Uint8Array,
  meta: LandedMeta,
): { readonly keys: readonly string[]; readonly moves: readonly Move[] } | undefined {
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
  return { keys, moves: calls.flatMap((call) => readTransfer(call) ?? []) }
}

const tokenPrograms = new Set(Object.values(tokenProgramBytes).map((bytes) => base58.encode(bytes)))
const [transfer, transferChecked, transferFeeExtension, transferCheckedWithFee] = [3, 12, 26, 1]

/** What one instruction of a token program moves; undefined for any other. */
function readTransfer({ program, accounts, data }: Call): Move | undefined {
  if (!tokenPrograms.has(program)) return
  const [from, second, third] = accounts
  if (data[0] === transfer && data.length >= 9) return moving(from, second, readU64(data, 1))
  if (data[0] === transferChecked && data.length >= 10) return moving(from, third, readU64(data, 1))
  const isWithFee = data[0] === transferFeeExtension && data[1] === transferCheckedWithFee
  if (isWithFee && data.length >= 11) return moving(from, third, readU64(data, 2))
  return
}

const moving = (from: string | undefined, to: string | undefined, amountAtomic: bigint): Move | undefined =>
  from === undefined || to === undefined ? undefined : { from, to, amountAtomic }
