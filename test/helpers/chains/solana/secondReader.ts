import {
  decompileTransactionMessage,
  getCompiledTransactionMessageDecoder,
  getCompiledTransactionMessageEncoder,
  getTransactionDecoder,
  getTransactionEncoder,
} from '@solana/kit'
import { parseTransferCheckedInstruction } from '@solana-program/token'

const transferChecked = 12

/** What @solana/kit finds in a serialised transaction of scheme `exact`. */
export interface SecondReading {
  readonly feePayer: string
  readonly payer: string
  readonly mint: string
  readonly destination: string
  readonly amount: bigint
  readonly decimals: number
  readonly programs: readonly string[]
  /** The bytes, written again by the second reader. */
  readonly rewritten: Uint8Array
}

/** Reads a transaction with @solana/kit, for comparison with our own reader. Throws where kit does. */
export function readWithKit(bytes: Uint8Array): SecondReading {
  const transaction = getTransactionDecoder().decode(bytes)
  const compiled = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
  const message = decompileTransactionMessage(compiled as never)
  const transfer = message.instructions.find(({ data }) => data?.length === 10 && data[0] === transferChecked)
  const parsed = parseTransferCheckedInstruction(transfer as never)
  const messageBytes = getCompiledTransactionMessageEncoder().encode(compiled as never)
  return {
    feePayer: message.feePayer.address,
    payer: parsed.accounts.authority.address,
    mint: parsed.accounts.mint.address,
    destination: parsed.accounts.destination.address,
    amount: parsed.data.amount,
    decimals: parsed.data.decimals,
    programs: message.instructions.map(({ programAddress }) => String(programAddress)),
    rewritten: new Uint8Array(
      getTransactionEncoder().encode({ ...transaction, messageBytes: messageBytes as never }),
    ),
  }
}
