import { base58 } from '@scure/base'
import { readMessage } from '../solana/message.ts'
import { MAX_TRANSACTION_BYTES, readWireTransaction } from '../solana/wire.ts'
import { decodeStrictBase64 } from './header.ts'

/** A Solana transaction that came without an envelope. */
export interface BareTransaction {
  /** Base58 of its first account, who pays the network's fee. */
  readonly feePayer: string
  /** True when nobody else signs it, so that it can land without the gateway. */
  readonly isSelfPaid: boolean
}

/**
 * Reads a header that is a whole Solana transaction and nothing else: strict base64 of exactly one transaction with a slot for
 * each signer. Clients older than x402 send `X-PAYMENT` so (marketplace interface, "An earlier form"). Whom it pays, and
 * that it is signed, is the settler's to judge. No JSON text is one: it would begin with at least nine signatures, and its
 * message could not be read.
 *
 * @returns undefined for everything else
 */
export function readBareTransaction(header: string): BareTransaction | undefined {
  const bytes = decodeStrictBase64(header, MAX_TRANSACTION_BYTES)
  const transaction = bytes === undefined ? undefined : readWireTransaction(bytes)
  const message = transaction === undefined ? undefined : readMessage(transaction.message)
  if (message === undefined || message.requiredSignatures !== transaction!.signatures.length) return undefined
  return { feePayer: base58.encode(message.keys[0]!), isSelfPaid: message.requiredSignatures === 1 }
}
