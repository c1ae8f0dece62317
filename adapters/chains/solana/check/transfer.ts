import { computeBudgetProgram, lighthouseProgram, memoProgram } from '../../../../core/solana/addresses.ts'
import type { Instruction, Message } from '../../../../core/solana/message.ts'
import { readU32, readU64, sameBytes, type WireTransaction } from '../../../../core/solana/wire.ts'
import { reasons } from '../reasons.ts'

const setComputeUnitLimit = 2
const setComputeUnitPrice = 3
const transferChecked = 12
/**
 * Maximum number of instructions in a payment. Phantom turns a payment of 4 into 8. No wallet sends a longer payment, and its
 * simulation would be expensive for a node.
 */
const MAX_INSTRUCTIONS = 16
/**
 * Lighthouse's MemoryWrite and MemoryClose create and close accounts. Every instruction from this number on is an assertion, and
 * assertions only read.
 */
const firstLighthouseAssertion = 2

/** The accounts of one payment, as indexes into the message's keys, and its other contents. */
export interface Transfer {
  readonly program: Uint8Array
  /** Index of the transfer among the instructions. */
  readonly at: number
  readonly source: number
  readonly mint: Uint8Array
  readonly destination: number
  readonly authority: number
  readonly amount: bigint
  readonly decimals: number
  readonly memos: readonly Uint8Array[]
  /** Cost of the transaction for its fee payer, in lamports, whether it succeeds or fails. */
  readonly feeLamports: bigint
}

export interface FeeCaps {
  readonly maxComputeUnits: number
  readonly maxMicroLamportsPerUnit: bigint
}

/** A reason and a message, from which the caller makes a refusal. */
export interface Fault {
  readonly reason: string
  readonly message: string
}

/**
 * Reads the payment in a message of scheme `exact`. The message contains SetComputeUnitLimit, SetComputeUnitPrice and one
 * TransferChecked. Memos and Lighthouse assertions may be anywhere around them, because wallets add assertions before and after the
 * transfer. Nothing else is allowed. If the payer pays the fee, the first two may be absent.
 *
 * Each of these three instructions must have exactly the bytes and accounts of its form. For example, a transfer with more accounts
 * would need several signers or would call a hook. The message must have no lookup tables.
 *
 * @param caps limits of the fee; undefined if the payer pays it
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
    feeLamports: BigInt(requiredSignatures) * LAMPORTS_PER_SIGNATURE + fee.priorityLamports,
  }
}

/** The cost of a signature, in lamports. */
export const LAMPORTS_PER_SIGNATURE = 5_000n

/** Highest cost of the compute budget, in lamports. */
export const highestPriorityFee = (caps: FeeCaps): bigint =>
  priorityFee(caps.maxComputeUnits, caps.maxMicroLamportsPerUnit)

/** The network charges for the requested units and not for the used ones. */
const priorityFee = (units: number, microLamportsPerUnit: bigint): bigint =>
  (BigInt(units) * microLamportsPerUnit + 999_999n) / 1_000_000n

/** The fee for the compute budget's instructions, in lamports, in addition to the signatures. */
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
        `at most ${caps.maxComputeUnits} compute units are paid for, ${units} were requested`,
      )
    }
    if (microLamports > caps.maxMicroLamportsPerUnit) {
      return fault(
        reasons.computePriceTooHigh,
        `at most ${caps.maxMicroLamportsPerUnit} micro-lamports per unit are paid, ${microLamports} were requested`,
      )
    }
  }
  return { priorityLamports: priorityFee(units ?? 0, microLamports ?? 0n) }
}

const oddBudget = (kind: number | undefined): Fault =>
  kind === setComputeUnitPrice
    ? fault(reasons.computePrice, 'exactly one SetComputeUnitPrice of 9 bytes is required')
    : fault(
        reasons.computeLimit,
        'exactly one SetComputeUnitLimit of 5 bytes is required, and no other instruction of the compute budget program except SetComputeUnitPrice',
      )

const isTransferChecked = ({ accounts, data }: Instruction): boolean =>
  accounts.length === 4 && data.length === 10 && data[0] === transferChecked

const isAssertion = ({ data }: Instruction) => data.length > 0 && data[0]! >= firstLighthouseAssertion

const fault = (reason: string, message: string): Fault => ({ reason, message })

/** Whether the payer pays the fee, in a transaction that the check has accepted. The payer is then the only signer. */
export const isSelfPaid = ({ signatures }: WireTransaction): boolean => signatures.length === 1
