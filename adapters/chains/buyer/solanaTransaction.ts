import { randomBytes } from 'node:crypto'
import {
  ComputeBudgetProgram,
  type Keypair,
  PublicKey,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import type { OfferTerms } from '../../../core/x402/offerTerms.ts'
import { associatedAccount, MEMO_PROGRAM, programOf } from './solanaAddresses.ts'

/** Enough for one transfer and a memo; the fee payer's verifier caps it. */
const COMPUTE_UNITS = 20_000
/** In millionths of a lamport a unit: next to nothing, because the fee is the seller's. */
const UNIT_PRICE_MICRO_LAMPORTS = 1
/** SPL Token's instruction number of TransferChecked. */
const TRANSFER_CHECKED = 12

/**
 * Builds and signs the one transaction that a Solana payment is: SetComputeUnitLimit, SetComputeUnitPrice,
 * TransferChecked, Memo (x402, scheme exact on SVM). The fee payer's signature is left empty for the seller's facilitator.
 * It creates no account and approves nothing. The memo makes two payments of the same price different transactions.
 *
 * @returns the transaction in wire format
 */
export function buildSolanaPayment(terms: OfferTerms, payer: Keypair, recentBlockhash: string): Uint8Array {
  const { asset, amountAtomic, payTo, extra } = terms
  const transfer = new TransactionInstruction({
    programId: programOf(asset),
    keys: [
      { pubkey: associatedAccount(payer.publicKey, asset), isSigner: false, isWritable: true },
      { pubkey: new PublicKey(asset.address), isSigner: false, isWritable: false },
      { pubkey: associatedAccount(new PublicKey(payTo), asset), isSigner: false, isWritable: true },
      { pubkey: payer.publicKey, isSigner: true, isWritable: false },
    ],
    data: transferData(amountAtomic, asset.decimals),
  })
  const text = typeof extra['memo'] === 'string' ? extra['memo'] : randomBytes(16).toString('hex')
  const memo = new TransactionInstruction({
    programId: MEMO_PROGRAM,
    keys: [],
    data: Buffer.from(text, 'utf8'),
  })
  const message = new TransactionMessage({
    payerKey: new PublicKey(extra['feePayer'] as string),
    recentBlockhash,
    instructions: [
      ComputeBudgetProgram.setComputeUnitLimit({ units: COMPUTE_UNITS }),
      ComputeBudgetProgram.setComputeUnitPrice({ microLamports: UNIT_PRICE_MICRO_LAMPORTS }),
      transfer,
      memo,
    ],
  }).compileToV0Message()
  const transaction = new VersionedTransaction(message)
  transaction.sign([payer])
  return transaction.serialize()
}

function transferData(amount: bigint, decimals: number): Buffer {
  const data = Buffer.alloc(10)
  data.writeUInt8(TRANSFER_CHECKED, 0)
  data.writeBigUInt64LE(amount, 1)
  data.writeUInt8(decimals, 9)
  return data
}
