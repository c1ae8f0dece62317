import { readMessage } from '../solana/message.ts'
import { maxTransactionBytes, readWireTransaction } from '../solana/wire.ts'
import { decodeStrictBase64 } from './strictBase64.ts'

/**
 * Whether a header is a whole Solana transaction and nothing else: strict base64 of exactly one transaction with a slot for
 * each signer. Clients older than x402 send `X-PAYMENT` so (marketplace interface, "An earlier form"). Whom it pays, and
 * that it is signed, is the settler's to judge. No JSON text is one: it would begin with at least nine signatures, and its
 * message could not be read.
 */
export function isBareTransaction(header: string): boolean {
  const bytes = decodeStrictBase64(header, maxTransactionBytes)
  const transaction = bytes === undefined ? undefined : readWireTransaction(bytes)
  const message = transaction === undefined ? undefined : readMessage(transaction.message)
  return message !== undefined && message.requiredSignatures === transaction!.signatures.length
}
