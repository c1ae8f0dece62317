import { bytesToHex, concatBytes, randomBytes, utf8ToBytes } from '@noble/hashes/utils'
import type { Asset } from '../domain/asset.ts'
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
 * Written out, because its shape is fixed: the accounts that sign, and six others. The checkout builds it
 * in browsers, so it knows nothing of Node.
 *
 * @param payer     base58, whose money it is; the terms were checked for it
 * @param blockhash base58, of the node's own choice
 * @throws {TypeError} for an address or block hash that is none
 */
export function buildSolanaPayment(terms: OfferTerms, payer: string, blockhash: string): Uint8Array {
  const feePayer = String(terms.extra['feePayer'])
  return build({ ...terms, memo: terms.extra['memo'] }, [feePayer, payer], blockhash)
}

/** What a wallet sends itself, and pays the network's fee of. */
export interface SolanaTransfer {
  readonly asset: Pick<Asset, 'address' | 'decimals' | 'program'>
  readonly amountAtomic: bigint
  /** Whose associated token account gets it; it has to be there. */
  readonly payTo: string
}

/**
 * The same transaction for a wallet that pays the network's fee itself.
 *
 * @throws {TypeError} for an address or block hash that is none
 */
export const buildSolanaTransfer = (transfer: SolanaTransfer, payer: string, blockhash: string): Uint8Array =>
  build(transfer, [payer], blockhash)

/** @param signers base58: the fee payer first, last the wallet whose money it is */
function build(
  { asset, amountAtomic, payTo, memo: given }: SolanaTransfer & { readonly memo?: unknown },
  signers: readonly [string] | readonly [string, string],
  blockhash: string,
): Uint8Array {
  const payer = signers.at(-1)!
  const [limit, price, transfer] = [new Uint8Array(5), new Uint8Array(9), new Uint8Array(10)]
  limit[0] = setComputeUnitLimit
  new DataView(limit.buffer).setUint32(1, COMPUTE_UNITS, true)
  price[0] = setComputeUnitPrice
  new DataView(price.buffer).setBigUint64(1, UNIT_PRICE_MICRO_LAMPORTS, true)
  transfer[0] = transferChecked
  new DataView(transfer.buffer).setBigUint64(1, amountAtomic, true)
  transfer[9] = asset.decimals
  const memo = typeof given === 'string' ? given : bytesToHex(randomBytes(16))

  const [source, destination] = [tokenAccountOf(payer, asset), tokenAccountOf(payTo, asset)]
  const keys = [
    ...[...signers, source, destination, asset.address].map(keyOf),
    tokenProgramBytes[asset.program ?? 'token'],
    computeBudgetProgram,
    memoProgram,
  ]
  const n = signers.length
  // Of the signers all but the fee payer are read-only, and the last four accounts are.
  const message = concatBytes(
    Uint8Array.of(version0, n, n - 1, 4, keys.length),
    ...keys,
    keyOf(blockhash),
    Uint8Array.of(4),
    instruction(n + 4, [], limit),
    instruction(n + 4, [], price),
    instruction(n + 3, [n, n + 2, n + 1, n - 1], transfer),
    instruction(n + 5, [], utf8ToBytes(memo)),
    Uint8Array.of(0),
  )
  return concatBytes(Uint8Array.of(n), new Uint8Array(n * signatureBytes), message)
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
