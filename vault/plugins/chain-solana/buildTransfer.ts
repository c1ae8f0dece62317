import { base58 } from '@scure/base'
import { computeBudgetProgram, memoProgram, tokenProgramBytes } from '../../../core/solana/programs.ts'
import { readAddress } from '../../../core/solana/readAddress.ts'
import { signatureBytes } from '../../../core/solana/wire.ts'
import type { OfferTerms } from '../../../core/x402/offerTerms.ts'

/** Enough for one transfer and a memo; the fee payer's verifier caps it. */
const computeUnits = 20_000
/** In millionths of a lamport a unit: next to nothing, because the fee is the seller's. */
const unitPriceMicroLamports = 1n
const transferChecked = 12
const version0 = 0x80

export interface TransferParts {
  readonly terms: OfferTerms
  /** Base58 addresses: who pays the fee, who pays the price, and the two token accounts. */
  readonly feePayer: string
  readonly payer: string
  readonly source: string
  readonly destination: string
  readonly blockhash: string
  readonly memo: string
}

/**
 * The one transaction that a payment is (x402, scheme `exact` on SVM), unsigned: SetComputeUnitLimit,
 * SetComputeUnitPrice, TransferChecked, Memo. It makes no account and approves nothing.
 *
 * Written out, because its shape is fixed: eight accounts, of which the fee payer and the payer sign.
 *
 * @throws {TypeError} for an address or block hash that is none
 */
export function buildTransfer(parts: TransferParts): Uint8Array {
  const { terms, feePayer, payer, source, destination, memo } = parts
  const { asset, amountAtomic } = terms
  const [limit, price, transfer] = [Buffer.alloc(5), Buffer.alloc(9), Buffer.alloc(10)]
  limit.writeUInt8(2, 0)
  limit.writeUInt32LE(computeUnits, 1)
  price.writeUInt8(3, 0)
  price.writeBigUInt64LE(unitPriceMicroLamports, 1)
  transfer.writeUInt8(transferChecked, 0)
  transfer.writeBigUInt64LE(amountAtomic, 1)
  transfer.writeUInt8(asset.decimals, 9)
  const text = Buffer.from(memo, 'utf8')

  const keys = [
    ...[feePayer, payer, source, destination, asset.address].map(keyOf),
    tokenProgramBytes[asset.program ?? 'token'],
    computeBudgetProgram,
    memoProgram,
  ]
  // Two signers, the second of them read-only, and the last four accounts read-only.
  const message = Buffer.concat([
    Uint8Array.of(version0, 2, 1, 4, keys.length),
    ...keys,
    keyOf(parts.blockhash),
    Uint8Array.of(4),
    instruction(6, [], limit),
    instruction(6, [], price),
    instruction(5, [2, 4, 3, 1], transfer),
    instruction(7, [], text),
    Uint8Array.of(0),
  ])
  return Buffer.concat([Uint8Array.of(2), new Uint8Array(2 * signatureBytes), message])
}

function instruction(program: number, accounts: readonly number[], data: Uint8Array): Uint8Array {
  return Buffer.concat([
    Uint8Array.of(program, accounts.length, ...accounts),
    compactLength(data.length),
    data,
  ])
}

/** A compact-u16 of at most 14 bits, which is more than a memo has. */
const compactLength = (length: number): Uint8Array =>
  length < 0x80 ? Uint8Array.of(length) : Uint8Array.of((length & 0x7f) | 0x80, length >> 7)

function keyOf(text: string): Uint8Array {
  const bytes = readAddress(text)
  if (bytes === undefined || base58.encode(bytes) !== text)
    throw new TypeError('Expected 32 bytes in base58.')
  return bytes
}
