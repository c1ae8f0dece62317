import { randomBytes } from 'node:crypto'
import { mod } from '@noble/curves/abstract/modular'
import { ed25519 } from '@noble/curves/ed25519'
import { bytesToNumberLE, numberToBytesLE } from '@noble/curves/utils'
import { sha512 } from '@noble/hashes/sha2'
import { base58 } from '@scure/base'
import {
  type Keypair,
  PublicKey,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import { type Address, encodeFunctionData, type Hex, parseAbi } from 'viem'
import type { LocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import { createJsonRpcClient } from '../../../localnet/jsonRpcClient.ts'
import type { LocalSolana } from '../../../localnet/solana/startLocalSolana.ts'

const erc20 = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])
const plentyWei = 10n ** 18n

/** Sends a transaction from any address: the local node needs no key. @returns its hash, mined unless automine is off */
export async function sendFrom(chain: LocalEvm, from: Address, to: Address, data: Hex): Promise<Hex> {
  await chain.fundEth(from, plentyWei)
  await chain.rpc('anvil_impersonateAccount', from)
  return chain.send({ from, to, data, gas: '0x493e0' })
}

/** A plain ERC-20 transfer from any address. @returns its hash */
export const sendUsdc = (chain: LocalEvm, from: Address, to: Address, amountAtomic: bigint): Promise<Hex> =>
  sendFrom(chain, from, chain.usdcAddress, transferCall(to, amountAtomic))

export const transferCall = (to: Address, amountAtomic: bigint): Hex =>
  encodeFunctionData({ abi: erc20, functionName: 'transfer', args: [to, amountAtomic] })

/** How a token instruction is written: as wallets do now, and as older ones did. */
export type TransferForm = 'transferChecked' | 'transfer'

/** An instruction that moves a token of 6 decimals between the associated accounts of two wallets. */
export function transferInstruction(
  chain: LocalSolana,
  program: string,
  { from, to, amountAtomic, mint = chain.usdcMint }: TokenTransfer,
  form: TransferForm = 'transferChecked',
): TransactionInstruction {
  const account = (address: string, isSigner: boolean, isWritable: boolean) => ({
    pubkey: new PublicKey(address),
    isSigner,
    isWritable,
  })
  const isChecked = form === 'transferChecked'
  const data = Buffer.alloc(isChecked ? 10 : 9)
  data[0] = isChecked ? 12 : 3
  data.writeBigUInt64LE(amountAtomic, 1)
  if (isChecked) data[9] = 6
  return new TransactionInstruction({
    programId: new PublicKey(program),
    keys: [
      account(chain.ataAddress(from, mint), false, true),
      ...(isChecked ? [account(mint, false, false)] : []),
      account(chain.ataAddress(to, mint), false, true),
      account(from, true, false),
    ],
    data,
  })
}

export interface TokenTransfer {
  readonly from: string
  readonly to: string
  readonly amountAtomic: bigint
  readonly mint?: string
}

/** A signed transaction that was not sent. */
export interface SignedSolana {
  readonly base64: string
  readonly signature: string
}

/** Signs instructions with the first signer as fee payer, and gives it the SOL for the fee. */
export async function signSolana(
  chain: LocalSolana,
  signers: readonly [Keypair, ...Keypair[]],
  instructions: TransactionInstruction[],
  version: 'legacy' | 0 = 0,
): Promise<SignedSolana> {
  const [feePayer] = signers
  chain.airdrop(feePayer.publicKey.toBase58(), plentyWei / 10n ** 9n)
  const { value } = await createJsonRpcClient(chain.rpcUrl)<{ value: { blockhash: string } }>(
    'getLatestBlockhash',
    { commitment: 'processed' },
  )
  const message = new TransactionMessage({
    payerKey: feePayer.publicKey,
    recentBlockhash: value.blockhash,
    instructions,
  })
  const transaction = new VersionedTransaction(
    version === 0 ? message.compileToV0Message() : message.compileToLegacyMessage(),
  )
  transaction.sign([...signers])
  const base64 = Buffer.from(transaction.serialize()).toString('base64')
  return { base64, signature: base58.encode(transaction.signatures[0]!) }
}

/** Sends a signed transaction, past the preflight. */
export const submitSolana = (chain: LocalSolana, { base64 }: Pick<SignedSolana, 'base64'>) =>
  createJsonRpcClient(chain.rpcUrl)('sendTransaction', base64, { encoding: 'base64', skipPreflight: true })

/** Signs instructions with the first signer as fee payer and sends them. @returns the signature */
export async function sendSolana(
  chain: LocalSolana,
  signers: readonly [Keypair, ...Keypair[]],
  instructions: TransactionInstruction[],
): Promise<string> {
  const signed = await signSolana(chain, signers, instructions)
  await submitSolana(chain, signed)
  return signed.signature
}

/** The same transaction with another signature of its one signer: Ed25519 has as many good ones as one likes. */
export function signAgain({ base64 }: Pick<SignedSolana, 'base64'>, signer: Keypair): SignedSolana {
  const bytes = Buffer.from(base64, 'base64')
  const scalarOf = (hash: Uint8Array) => mod(bytesToNumberLE(hash), ed25519.CURVE.n)
  const { scalar } = ed25519.utils.getExtendedPublicKey(signer.secretKey.subarray(0, 32))
  const message = bytes.subarray(65)
  const nonce = scalarOf(randomBytes(64))
  const point = ed25519.ExtendedPoint.BASE.multiply(nonce).toRawBytes()
  const challenge = scalarOf(sha512(Buffer.concat([point, signer.publicKey.toBytes(), message])))
  const signature = Buffer.concat([
    point,
    numberToBytesLE(mod(nonce + challenge * scalar, ed25519.CURVE.n), 32),
  ])
  bytes.set(signature, 1)
  return { base64: bytes.toString('base64'), signature: base58.encode(signature) }
}
