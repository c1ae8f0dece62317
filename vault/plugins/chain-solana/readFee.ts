import { readU32, readU64, sameBytes } from '../../../core/solana/bytes.ts'
import type { Message } from '../../../core/solana/message.ts'
import { computeBudgetProgram } from '../../../core/solana/programs.ts'

const lamportsPerSignature = 5_000n
/** What an instruction may use when no limit is set, and the most that a transaction may (Agave, compute budget). */
const defaultUnits = 200_000n
const maxUnits = 1_400_000n
const microLamports = 1_000_000n

export interface ReadFee {
  /** Lamports at most: signatures and the priority fee. */
  readonly lamports: bigint
  /** What could not be read, in words; the transaction is opaque then. */
  readonly problem?: string
}

/**
 * The most that a transaction costs its fee payer: 5,000 lamports a signature, and the price of a compute unit times the
 * limit, rounded up. The network charges for the limit, not for what is used. Instructions of the old priority fee and
 * repeated ones are not understood; neither are those with accounts or bytes beyond their form, which the network takes
 * all the same: the highest price and limit of all of them count.
 */
export function readFee(message: Message): ReadFee {
  let limit: bigint | undefined
  let price = 0n
  let isOdd = false
  const seen = new Set<number>()
  const others = message.instructions.filter(
    ({ program }) => !sameBytes(message.keys[program] ?? new Uint8Array(0), computeBudgetProgram),
  )
  for (const instruction of message.instructions) {
    if (others.includes(instruction)) continue
    const { accounts, data } = instruction
    const [tag = -1] = data
    const length = { 1: 5, 2: 5, 3: 9, 4: 5 }[tag]
    if (length !== data.length || accounts.length !== 0 || seen.has(tag)) isOdd = true
    if (length === undefined || data.length < length) continue
    if (tag === 2) limit = largest(limit, BigInt(readU32(data, 1)))
    if (tag === 3) price = largest(price, readU64(data, 1))
    seen.add(tag)
  }
  const units = limit ?? defaultUnits * BigInt(others.length)
  const charged = units > maxUnits ? maxUnits : units
  const priority = (charged * price + microLamports - 1n) / microLamports
  const lamports = lamportsPerSignature * BigInt(message.requiredSignatures) + priority
  return isOdd ? { lamports, problem: 'sets the compute budget in a way that is not known' } : { lamports }
}

const largest = (a: bigint | undefined, b: bigint): bigint => (a === undefined || b > a ? b : a)
