import { readU32, readU64, sameBytes } from '../../../../core/solana/bytes.ts'
import type { Instruction, Message } from '../../../../core/solana/message.ts'
import { computeBudgetProgram, lighthouseProgram, memoProgram } from '../../../../core/solana/programs.ts'
import { reasons } from '../reasons.ts'

const setComputeUnitLimit = 2
const setComputeUnitPrice = 3
const transferChecked = 12
/** Phantom makes 8 instructions of a payment of 4. What has more than this is no wallet's payment, and costs a node to simulate. */
const MAX_INSTRUCTIONS = 16
/** Lighthouse's MemoryWrite and MemoryClose make and end accounts; every number above is an assertion, which only reads. */
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
  /** What the transaction costs its fee payer, in lamports, whether it succeeds or fails. */
  readonly feeLamports: bigint
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
 * Reads the payment in a message of scheme `exact`: SetComputeUnitLimit, SetComputeUnitPrice, one TransferChecked, and memos and
 * Lighthouse assertions anywhere around them, because wallets add assertions before and after the transfer. Nothing else may be
 * there. Where the payer pays the fee itself, the first two may be left out. Every instruction that counts has exactly the bytes and
 * accounts of its form, so nothing can be hidden behind it: a transfer with more accounts would be one by several signers, or one
 * that calls a hook.
 *
 * The message must be free of lookup tables.
 *
 * @param caps what the fee may be; undefined where the payer pays it
 * @see https://github.com/x402-foundation/x402/blob/main/specs/schemes/exact/scheme_exact_svm.md
 */
export function readTransfer(message: Message, caps: FeeCaps | undefined): Transfer | Fault {
  const { instructions, keys, requiredSignatures } = message
  if (instructions.length > MAX_INSTRUCTIONS) {
    const expected = `at most ${MAX_INSTRUCTIONS} instructions are expected`
    return fault(reasons.instructionsLength, `${expected}, ${instructions.length} came`)
  }
  const budget: Instruction[] = []
  const memos: Uint8Array[] = []
  let at: number | undefined
  let unknownAt: number | undefined
  for (let i = 0; i < instructions.length; i++) {
    const instruction = instructions[i]!
    const program = keys[instruction.program]!
    if (sameBytes(program, computeBudgetProgram)) budget.push(instruction)
    else if (sameBytes(program, memoProgram)) memos.push(instruction.data)
    else if (sameBytes(program, lighthouseProgram) && isAssertion(instruction)) continue
    else if (at === undefined && isTransferChecked(instruction)) at = i
    else unknownAt ??= i
  }
  const fee = readFee(budget, caps)
  if ('reason' in fee) return fee
  if (at === undefined) {
    return fault(
      reasons.noTransfer,
      'one instruction must be TransferChecked with its 4 accounts and 10 bytes of data',
    )
  }
  if (unknownAt !== undefined) {
    return fault(
      reasons.unknownInstruction[unknownAt - 3] ?? reasons.unknownOptional,
      `instruction ${unknownAt + 1} must be a memo or a Lighthouse assertion, beside the one TransferChecked`,
    )
  }
  const { program, accounts, data } = instructions[at]!
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
    feeLamports: BigInt(requiredSignatures) * lamportsPerSignature + fee.priorityLamports,
  }
}

/** What a signature costs, in lamports. */
export const lamportsPerSignature = 5_000n

/** The most that the compute budget may cost, in lamports. */
export const highestPriorityFee = (caps: FeeCaps): bigint =>
  priorityFee(caps.maxComputeUnits, caps.maxMicroLamportsPerUnit)

/** The network charges for the units that are asked for, not for those that are used. */
const priorityFee = (units: number, microLamportsPerUnit: bigint): bigint =>
  (BigInt(units) * microLamportsPerUnit + 999_999n) / 1_000_000n

/** What the compute budget's instructions have the fee payer spend beyond signatures. */
function readFee(
  budget: readonly Instruction[],
  caps: FeeCaps | undefined,
): { readonly priorityLamports: bigint } | Fault {
  let units: number | undefined
  let microLamports: bigint | undefined
  for (const { accounts, data } of budget) {
    const [kind] = data
    if (accounts.length > 0) return oddBudget(kind)
    if (kind === setComputeUnitLimit && data.length === 5 && units === undefined) units = readU32(data, 1)
    else if (kind === setComputeUnitPrice && data.length === 9 && microLamports === undefined)
      microLamports = readU64(data, 1)
    else return oddBudget(kind)
  }
  if (caps !== undefined) {
    if (units === undefined) return oddBudget(setComputeUnitLimit)
    if (microLamports === undefined) return oddBudget(setComputeUnitPrice)
    if (units > caps.maxComputeUnits) {
      return fault(
        reasons.computeLimitTooHigh,
        `at most ${caps.maxComputeUnits} compute units are paid for, ${units} were asked`,
      )
    }
    if (microLamports > caps.maxMicroLamportsPerUnit) {
      return fault(
        reasons.computePriceTooHigh,
        `at most ${caps.maxMicroLamportsPerUnit} micro-lamports a unit are paid, ${microLamports} were asked`,
      )
    }
  }
  return { priorityLamports: priorityFee(units ?? 0, microLamports ?? 0n) }
}

const oddBudget = (kind: number | undefined): Fault =>
  kind === setComputeUnitPrice
    ? fault(reasons.computePrice, 'exactly one SetComputeUnitPrice of 9 bytes is expected')
    : fault(
        reasons.computeLimit,
        'exactly one SetComputeUnitLimit of 5 bytes is expected, and of the compute budget program nothing but it and SetComputeUnitPrice',
      )

const isTransferChecked = ({ accounts, data }: Instruction): boolean =>
  accounts.length === 4 && data.length === 10 && data[0] === transferChecked

const isAssertion = ({ data }: Instruction) => data.length > 0 && data[0]! >= firstLighthouseAssertion

const fault = (reason: string, message: string): Fault => ({ reason, message })
