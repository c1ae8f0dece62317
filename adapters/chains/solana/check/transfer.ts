import { readU32, readU64, sameBytes } from '../../../../core/solana/bytes.ts'
import type { Instruction, Message } from '../../../../core/solana/message.ts'
import { computeBudgetProgram, lighthouseProgram, memoProgram } from '../../../../core/solana/programs.ts'
import { reasons } from '../reasons.ts'

const setComputeUnitLimit = 2
const setComputeUnitPrice = 3
const transferChecked = 12
/** The three that every payment has, and up to three optional ones (x402, scheme exact on SVM). */
const minInstructions = 3
const MAX_INSTRUCTIONS = 6
/** Lighthouse's MemoryWrite and MemoryClose make and end accounts; every number above is an assertion. */
const firstLighthouseAssertion = 2

/** What one payment moves, as places in the message's keys, and what it says beside. */
export interface Transfer {
  readonly program: Uint8Array
  /** Its place among the instructions. */
  readonly at: number
  readonly source: number
  readonly mint: Uint8Array
  readonly destination: number
  readonly authority: number
  readonly amount: bigint
  readonly decimals: number
  readonly memos: readonly Uint8Array[]
}

export interface FeeCaps {
  readonly maxComputeUnits: number
  readonly maxMicroLamportsPerUnit: bigint
}

/** A reason and words; the caller makes a refusal of it. */
export interface Fault {
  readonly reason: string
  readonly message: string
}

/**
 * Reads a message of exactly the shape that scheme `exact` has on Solana: SetComputeUnitLimit, SetComputeUnitPrice,
 * TransferChecked, then up to three Lighthouse assertions or memos, and nothing else. Where the payer pays the fee itself,
 * the first two may be left out. Every instruction has exactly the
 * bytes and accounts of its form, so nothing can be hidden behind them: a transfer with more accounts would be one by
 * several signers, or one that calls a hook.
 *
 * The message must be free of lookup tables.
 *
 * @param caps what the fee may be; undefined where the payer pays it
 * @see https://github.com/coinbase/x402/blob/main/specs/schemes/exact/scheme_exact_svm.md
 */
export function readTransfer(message: Message, caps: FeeCaps | undefined): Transfer | Fault {
  const { instructions, keys } = message
  const least = caps === undefined ? 1 : minInstructions
  if (instructions.length < least || instructions.length > MAX_INSTRUCTIONS) {
    const expected = `${least} to ${MAX_INSTRUCTIONS} instructions are expected`
    return fault(reasons.instructionsLength, `${expected}, ${instructions.length} came`)
  }
  const feeFault = caps === undefined ? undefined : checkFee(instructions[0]!, instructions[1]!, keys, caps)
  if (feeFault !== undefined) return feeFault
  const at = caps === undefined ? feeInstructions(instructions, keys) : 2

  const transfer = instructions[at]
  if (
    transfer === undefined ||
    transfer.accounts.length !== 4 ||
    transfer.data.length !== 10 ||
    transfer.data[0] !== transferChecked
  ) {
    return fault(
      reasons.noTransfer,
      `instruction ${at + 1} must be TransferChecked with its 4 accounts and 10 bytes of data`,
    )
  }
  const { program, accounts, data } = transfer
  const memos: Uint8Array[] = []
  for (let i = at + 1; i < instructions.length; i++) {
    const optional = instructions[i]!
    const key = keys[optional.program]!
    if (sameBytes(key, memoProgram)) memos.push(optional.data)
    else if (!sameBytes(key, lighthouseProgram) || !isAssertion(optional)) {
      return fault(
        reasons.unknownInstruction[Math.max(0, i - 3)]!,
        `instruction ${i + 1} must be a memo or a Lighthouse assertion`,
      )
    }
  }
  return {
    program: keys[program]!,
    at,
    source: accounts[0]!,
    mint: keys[accounts[1]!]!,
    destination: accounts[2]!,
    authority: accounts[3]!,
    amount: readU64(data, 1),
    decimals: data[9]!,
    memos,
  }
}

/** The two instructions that decide what the fee payer spends. */
function checkFee(
  limit: Instruction,
  price: Instruction,
  keys: readonly Uint8Array[],
  caps: FeeCaps,
): Fault | undefined {
  if (!isComputeBudget(limit, keys, setComputeUnitLimit, 5)) {
    return fault(reasons.computeLimit, 'the first instruction must be SetComputeUnitLimit')
  }
  if (!isComputeBudget(price, keys, setComputeUnitPrice, 9)) {
    return fault(reasons.computePrice, 'the second instruction must be SetComputeUnitPrice')
  }
  const units = readU32(limit.data, 1)
  if (units > caps.maxComputeUnits) {
    return fault(
      reasons.computeLimitTooHigh,
      `at most ${caps.maxComputeUnits} compute units are paid for, ${units} were asked`,
    )
  }
  const microLamports = readU64(price.data, 1)
  if (microLamports <= caps.maxMicroLamportsPerUnit) return undefined
  return fault(
    reasons.computePriceTooHigh,
    `at most ${caps.maxMicroLamportsPerUnit} micro-lamports a unit are paid, ${microLamports} were asked`,
  )
}

/** What a signature costs, in lamports. */
export const lamportsPerSignature = 5_000n

/**
 * What a transaction costs its fee payer, in lamports, by its signatures and its first two instructions: one that
 * {@link readTransfer} has taken under caps.
 */
export function feeOf({ instructions, requiredSignatures }: Message): bigint {
  const units = BigInt(readU32(instructions[0]!.data, 1))
  const priority = (units * readU64(instructions[1]!.data, 1) + 999_999n) / 1_000_000n
  return BigInt(requiredSignatures) * lamportsPerSignature + priority
}

/** How many instructions decide the fee, where any fee may be paid: the limit and the price, each or both. */
function feeInstructions(instructions: readonly Instruction[], keys: readonly Uint8Array[]): number {
  let count = 0
  if (isComputeBudget(instructions[count], keys, setComputeUnitLimit, 5)) count++
  if (isComputeBudget(instructions[count], keys, setComputeUnitPrice, 9)) count++
  return count
}

function isComputeBudget(
  instruction: Instruction | undefined,
  keys: readonly Uint8Array[],
  kind: number,
  length: number,
): boolean {
  if (instruction === undefined) return false
  const { program, accounts, data } = instruction
  return (
    data.length === length &&
    data[0] === kind &&
    accounts.length === 0 &&
    sameBytes(keys[program]!, computeBudgetProgram)
  )
}

const isAssertion = ({ data }: Instruction) => data.length > 0 && data[0]! >= firstLighthouseAssertion

const fault = (reason: string, message: string): Fault => ({ reason, message })
