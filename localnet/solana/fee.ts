import type { VersionedMessage } from '@solana/web3.js'
import { COMPUTE_BUDGET_PROGRAM } from './addresses.ts'

const LAMPORTS_PER_SIGNATURE = 5_000n
const MICRO_LAMPORTS = 1_000_000n
const SET_COMPUTE_UNIT_LIMIT = 2
const SET_COMPUTE_UNIT_PRICE = 3
const DEFAULT_UNITS_PER_INSTRUCTION = 200_000n
const DEFAULT_UNITS_PER_BUILTIN_INSTRUCTION = 3_000n
const MAX_UNITS = 1_400_000n
/** Programs that are part of the validator and get the small default (SIMD-0170). */
const BUILTINS = new Set([COMPUTE_BUDGET_PROGRAM, '11111111111111111111111111111111'])

/** Lamports that a message costs: its signatures, and limit × price rounded up. @see https://solana.com/docs/core/fees */
export function feeOf(message: VersionedMessage): bigint {
  const keys = message.staticAccountKeys.map((key) => key.toBase58())
  let price = 0n
  let limit: bigint | undefined
  let defaultLimit = 0n
  for (const instruction of message.compiledInstructions) {
    const program = keys[instruction.programIdIndex] ?? ''
    defaultLimit += BUILTINS.has(program)
      ? DEFAULT_UNITS_PER_BUILTIN_INSTRUCTION
      : DEFAULT_UNITS_PER_INSTRUCTION
    if (program !== COMPUTE_BUDGET_PROGRAM) continue
    const data = Buffer.from(instruction.data)
    if (data[0] === SET_COMPUTE_UNIT_LIMIT && data.length >= 5) limit = BigInt(data.readUInt32LE(1))
    if (data[0] === SET_COMPUTE_UNIT_PRICE && data.length >= 9) price = data.readBigUInt64LE(1)
  }
  const asked = limit ?? defaultLimit
  const units = asked < MAX_UNITS ? asked : MAX_UNITS
  const priority = (price * units + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS
  return BigInt(message.header.numRequiredSignatures) * LAMPORTS_PER_SIGNATURE + priority
}
