import { base58 } from '@scure/base'
import type { TokenBalance } from '../../../../core/rpc/post.ts'
import type { RpcCall } from '../../../../core/rpc/rpc.ts'
import { readAddress, tokenProgramBytes } from '../../../../core/solana/addresses.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { associatedTokenAddress } from '../../../../core/solana/tokenAccount.ts'
import { readU64, readWireTransaction } from '../../../../core/solana/wire.ts'
import type { Commitment } from '../rpc/nodes.ts'

/** The parts of the response to `getTransaction`, in the encoding `base64`, that show transfers. */
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

/** The movement of one instruction of a token program between token accounts, of any token. */
interface Move {
  readonly from: string
  readonly to: string
  readonly amountAtomic: bigint
}

/**
 * Returns the accounts of a transaction in its own order, and every token transfer, including those of called programs. Undefined
 * if the message cannot be read.
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
      accounts: accounts.map((index) => keys[index]),
      data,
    }),
  )
  return { keys, moves: calls.flatMap((call) => readTransfer(call) ?? []) }
}

const tokenPrograms = new Set(Object.values(tokenProgramBytes).map((bytes) => base58.encode(bytes)))
const [transfer, transferChecked, transferFeeExtension, transferCheckedWithFee] = [3, 12, 26, 1]

/** The movement of one instruction of a token program. Undefined for any other instruction. */
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

/** The part of the response to `getTransaction` that proofs use. */
export interface Landed {
  /** The transaction, and its encoding. */
  readonly transaction: readonly [string, string]
  readonly meta: (LandedMeta & { readonly err: unknown }) | null
  readonly slot: number
  /** Seconds since 1970. Null if the node does not have the time. */
  readonly blockTime: number | null
}

/** The request for a transaction that has reached a commitment. Its result is a {@link Landed} or null. */
export const landedCall = (signature: string, commitment: Commitment): RpcCall => ({
  method: 'getTransaction',
  params: [signature, { encoding: 'base64', commitment, maxSupportedTransactionVersion: 0 }],
})

/** Message and effects of this transaction if it succeeded. Undefined if the node does not return them. */
export function effectsOf(
  { transaction, meta }: Landed,
  signature: string,
): { readonly message: Uint8Array; readonly meta: LandedMeta } | undefined {
  const wire = readWireTransaction(Buffer.from(transaction[0], 'base64'))
  const isThis = wire !== undefined && base58.encode(wire.signatures[0]!) === signature
  return isThis && meta?.err === null ? { message: wire.message, meta } : undefined
}

/** The owner of each token account before or after the transaction, because a transaction may close the account that it empties. */
export function ownersOf(meta: LandedMeta, keys: readonly string[]): ReadonlyMap<string, string> {
  const balances = [...(meta.preTokenBalances ?? []), ...(meta.postTokenBalances ?? [])]
  return new Map(
    balances.flatMap(({ accountIndex, owner }) =>
      typeof owner === 'string' ? [[keys[accountIndex] ?? '', owner]] : [],
    ),
  )
}

/**
 * The wallet's associated accounts for the mint, one per token program. Only one of them can exist, because a mint belongs to one
 * program.
 */
export function tokenAccountsOf(wallet: string, mint: string): ReadonlySet<string> {
  const [owner, token] = [readAddress(wallet), readAddress(mint)]
  if (owner === undefined || token === undefined) return new Set()
  const programs = Object.values(tokenProgramBytes)
  return new Set(programs.map((program) => base58.encode(associatedTokenAddress(owner, program, token))))
}
