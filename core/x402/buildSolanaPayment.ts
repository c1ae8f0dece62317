import { bytesToHex, concatBytes, randomBytes, utf8ToBytes } from '@noble/hashes/utils'
import { readAddress } from '../solana/address.ts'
import { computeBudgetProgram, memoProgram, tokenProgramBytes } from '../solana/programs.ts'
import { tokenAccountOf } from '../solana/tokenAccountOf.ts'
import { signatureBytes } from '../solana/wire.ts'
import type { OfferTerms } from './offerTerms.ts'

/** Enough for a transfer, a memo and the assertions that a wallet adds; the fee payer's verifier caps it. */
const COMPUTE_UNITS = 60_000
/** In millionths of a lamport a unit: next to nothing, because the fee is the seller's. */
const UNIT_PRICE_MICRO_LAMPORTS = 1n

/** Instruction numbers of the compute budget program and of SPL Token. */
const [setComputeUnitLimit, setComputeUnitPrice, transferChecked] = [2, 3, 12]
const version0 = 0x80

/**
 * The one transaction that a payment is (x402, scheme `exact` on SVM), in wire format and unsigned: SetComputeUnitLimit,
 * SetComputeUnitPrice, TransferChecked, Memo. The fee payer of the offer signs first, the payer second, whose wallet may add
 * assertions. It makes no account and approves nothing. The memo, where the offer names none, makes two payments of the same price
 * different transactions.
 *
 * Written out, because its shape is fixed: eight accounts, of which the fee payer and the payer sign. The checkout builds it
 * in browsers, so it knows nothing of Node.
 *
 * @param payer     base58, whose money it is; the terms were checked for it
 * @param blockhash base58, of the node's own choice
 * @throws {TypeError} for an address or block hash that is none
 */
export function buildSolanaPayment(terms: OfferTerms, payer: string, blockhash: string): Uint8Array {
  const { asset, amountAtomic, payTo, extra } = terms
  const [limit, price, transfer] = [new Uint8Array(5), new Uint8Array(9), new Uint8Array(10)]
  limit[0] = setComputeUnitLimit
  new DataView(limit.buffer).setUint32(1, COMPUTE_UNITS, true)
  price[0] = setComputeUnitPrice
  new DataView(price.buffer).setBigUint64(1, UNIT_PRICE_MICRO_LAMPORTS, true)
  transfer[0] = transferChecked
  new DataView(transfer.buffer).setBigUint64(1, amountAtomic, true)
  transfer[9] = asset.decimals
  const memo = typeof extra['memo'] === 'string' ? extra['memo'] : bytesToHex(randomBytes(16))

  const [source, destination] = [tokenAccountOf(payer, asset), tokenAccountOf(payTo, asset)]
  const keys = [
    ...[String(extra['feePayer']), payer, source, destination, asset.address].map(keyOf),
    tokenProgramBytes[asset.program ?? 'token'],
    computeBudgetProgram,
    memoProgram,
  ]
  // Two signers, the second of them read-only, and the last four accounts read-only.
  const message = concatBytes(
    Uint8Array.of(version0, 2, 1, 4, keys.length),
    ...keys,
    keyOf(blockhash),
    Uint8Array.of(4),
    instruction(6, [], limit),
    instruction(6, [], price),
    instruction(5, [2, 4, 3, 1], transfer),
    instruction(7, [], utf8ToBytes(memo)),
    Uint8Array.of(0),
  )
  return concatBytes(Uint8Array.of(2), new Uint8Array(2 * signatureBytes), message)
}

function instruction(program: number, accounts: readonly number[], data: Uint8Array): Uint8Array {
  return concatBytes(Uint8Array.of(program, accounts.length, ...accounts), compactLength(data.length), data)
}

/** A compact-u16 of at most 14 bits, which is more than a memo has. */
const compactLength = (length: number): Uint8Array =>
  length < 0x80 ? Uint8Array.of(length) : Uint8Array.of((length & 0x7f) | 0x80, length >> 7)

function keyOf(text: string): Uint8Array {
  const bytes = readAddress(text)
  if (bytes === undefined) throw new TypeError('Expected 32 bytes in base58.')
  return bytes
}
