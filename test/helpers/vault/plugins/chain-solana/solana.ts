import { createHash } from 'node:crypto'
import { ed25519 } from '@noble/curves/ed25519'
import {
  ComputeBudgetProgram,
  Keypair,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import {
  associatedTokenProgram,
  memoProgram,
  tokenProgramBytes,
} from '../../../../../core/solana/addresses.ts'
import { associatedTokenAddress } from '../../../../../core/solana/tokenAccount.ts'
import { pinnedAssets } from '../../../../../vault/effects/assets.ts'
import type { Decoded, DecodeResult } from '../../../../../vault/effects/effect.ts'
import plugin from '../../../../../vault/plugins/chain-solana/index.ts'

const seeded = (name: string) => Keypair.fromSeed(createHash('sha256').update(name).digest())

export const us = seeded('us')
export const payee = seeded('payee').publicKey
export const stranger = seeded('stranger')
export const mint = new PublicKey('EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v')
export const tokenProgram = new PublicKey(tokenProgramBytes.token)
const blockhash = new PublicKey(createHash('sha256').update('blockhash').digest()).toBase58()

export const ata = (owner: PublicKey): PublicKey =>
  new PublicKey(associatedTokenAddress(owner.toBytes(), tokenProgramBytes.token, mint.toBytes()))

export const account = (pubkey: PublicKey, isSigner = false, isWritable = false) => ({
  pubkey,
  isSigner,
  isWritable,
})

/** An SPL Token instruction: a number, an amount, and decimals where the form has them. */
export function token(
  tag: number,
  amount: bigint,
  accounts: ReturnType<typeof account>[],
  decimals?: number,
): TransactionInstruction {
  const data = Buffer.alloc(decimals === undefined ? 9 : 10)
  data.writeUInt8(tag, 0)
  data.writeBigUInt64LE(amount, 1)
  if (decimals !== undefined) data.writeUInt8(decimals, 9)
  return new TransactionInstruction({ programId: tokenProgram, keys: accounts, data })
}

/** TransferChecked of USDC from our account. */
export const transferChecked = (amount: bigint, to: PublicKey = ata(payee)): TransactionInstruction =>
  token(
    12,
    amount,
    [
      account(ata(us.publicKey), false, true),
      account(mint),
      account(to, false, true),
      account(us.publicKey, true),
    ],
    6,
  )

export const createAccount = (owner: PublicKey): TransactionInstruction =>
  new TransactionInstruction({
    programId: new PublicKey(associatedTokenProgram),
    keys: [
      account(us.publicKey, true, true),
      account(ata(owner), false, true),
      account(owner),
      account(mint),
      account(SystemProgram.programId),
      account(tokenProgram),
    ],
    data: Buffer.from([1]),
  })

export const memo = (text: string): TransactionInstruction =>
  new TransactionInstruction({ programId: new PublicKey(memoProgram), keys: [], data: Buffer.from(text) })

export const budget = (units: number, microLamports: bigint): TransactionInstruction[] => [
  ComputeBudgetProgram.setComputeUnitLimit({ units }),
  ComputeBudgetProgram.setComputeUnitPrice({ microLamports }),
]

/** A version 0 transaction with empty signature slots. */
export function unsigned(
  instructions: TransactionInstruction[],
  payer: PublicKey = us.publicKey,
): VersionedTransaction {
  const message = new TransactionMessage({ payerKey: payer, recentBlockhash: blockhash, instructions })
  return new VersionedTransaction(message.compileToV0Message())
}

export function legacy(instructions: TransactionInstruction[], payer: PublicKey = us.publicKey): Buffer {
  const transaction = new Transaction({ feePayer: payer, recentBlockhash: blockhash }).add(...instructions)
  return transaction.serialize({ requireAllSignatures: false, verifySignatures: false })
}

export const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

export const decode = (unsignedTx: unknown): DecodeResult =>
  plugin.decodeTransaction({
    chain: 'solana',
    account: us.publicKey.toBase58(),
    unsignedTx,
    assets: pinnedAssets,
  })

/** Decodes what must be readable. */
export function decoded(instructions: TransactionInstruction[], payer?: PublicKey): Decoded {
  const result = decode(base64(unsigned(instructions, payer).serialize()))
  if (!result.ok) throw new Error(`${result.code}: ${result.message}`)
  return result.decoded
}

export const sign = (bytes: Uint8Array, by: Keypair = us): Uint8Array =>
  ed25519.sign(bytes, by.secretKey.subarray(0, 32))
