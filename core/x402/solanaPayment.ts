import { bytesToHex, concatBytes, randomBytes, utf8ToBytes } from '@noble/hashes/utils'
import type { Asset } from '../domain/asset.ts'
import { computeBudgetProgram, memoProgram, readAddress, tokenProgramBytes } from '../solana/addresses.ts'
import { tokenAccountOf } from '../solana/tokenAccount.ts'
import { signatureBytes } from '../solana/wire.ts'
import type { OfferTerms } from './offerTerms.ts'

/**
 * Compute limit, which is enough for a transfer, a memo and the assertions that a wallet adds. The fee payer's verifier sets the
 * maximum.
 */
const COMPUTE_UNITS = 60_000
/** Price per compute unit, in millionths of a lamport. It is almost nothing, because the seller pays the fee. */
const UNIT_PRICE_MICRO_LAMPORTS = 1n

/** Instruction numbers of the compute budget program and of SPL Token. */
const [setComputeUnitLimit, setComputeUnitPrice, transferChecked] = [2, 3, 12]
const version0 = 0x80

/**
 * The unsigned transaction of a payment in wire format (x402, scheme `exact` on SVM). Its instructions are SetComputeUnitLimit,
 * SetComputeUnitPrice, TransferChecked and Memo. The offer's fee payer is the first signer and the payer the second. The payer's
 * wallet may add assertions. The transaction creates no account and approves nothing. If the offer names no memo, a generated memo
 * makes two payments of the same price different transactions.
 *
 * It is implemented here, because its shape is fixed: the accounts that sign, and six others. The checkout builds it in browsers,
 * so it must not depend on Node.
 *
 * @param payer base58 address of the owner of the money. The terms were checked for this payer
 * @param blockhash base58, from the node that the caller chose
 * @throws {TypeError} for an invalid address or block hash
 */
export function buildSolanaPayment(terms: OfferTerms, payer: string, blockhash: string): Uint8Array {
  const feePayer = String(terms.extra['feePayer'])
  return build({ ...terms, memo: terms.extra['memo'] }, [feePayer, payer], blockhash)
}

/** A transfer that a wallet sends itself, and for which the wallet pays the network fee. */
export interface SolanaTransfer {
  readonly asset: Pick<Asset, 'address' | 'decimals' | 'program'>
  readonly amountAtomic: bigint
  /** The owner of the associated token account that receives the transfer. The account must exist. */
  readonly payTo: string
}

/**
 * Like {@link buildSolanaPayment}, for a wallet that pays the network fee itself.
 *
 * @throws {TypeError} for an invalid address or block hash
 */
export const buildSolanaTransfer = (transfer: SolanaTransfer, payer: string, blockhash: string): Uint8Array =>
  build(transfer, [payer], blockhash)

/** @param signers base58 addresses, with the fee payer first and the owner of the money last */
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
  // All signers except the fee payer are read-only, and so are the last four accounts.
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

/** A compact-u16 of at most 14 bits, which suffice because a memo is never longer. */
const compactLength = (length: number): Uint8Array =>
  length < 0x80 ? Uint8Array.of(length) : Uint8Array.of((length & 0x7f) | 0x80, length >> 7)

function keyOf(text: string): Uint8Array {
  const bytes = readAddress(text)
  if (bytes === undefined) throw new TypeError('Expected 32 bytes in base58.')
  return bytes
}
