import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createKeyPairSignerFromBytes } from '@solana/kit'
import {
  Keypair,
  type MessageV0,
  PublicKey,
  type Signer,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { ExactSvmSchemeV1 } from '@x402/svm/exact/v1/client'
import {
  type SolanaRules,
  type SolanaRulesOptions,
  solanaRules,
} from '../../../../adapters/chains/solana/check/rules.ts'
import type { Asset } from '../../../../core/domain/asset.ts'
import type { NetworkId } from '../../../../core/domain/network.ts'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { DEVNET_USDC_MINT, LOCAL_TOKEN_2022_MINT } from '../../../../localnet/solana/addresses.ts'

export const network: NetworkId = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'

export const usdc: Asset = {
  network,
  address: DEVNET_USDC_MINT,
  symbol: 'USDC',
  decimals: 6,
  program: 'token',
  feeBps: 500,
  usdPerUnit: '1',
}
/** A dollar of the Token-2022 program; the local chain has it at this address. */
export const dollar2022: Asset = {
  ...usdc,
  address: LOCAL_TOKEN_2022_MINT,
  symbol: 'USD22',
  program: 'token-2022',
}

/** The people of a test: who pays the fee, who buys, who sells. */
export interface Cast {
  readonly feePayer: Keypair
  readonly payer: Keypair
  readonly seller: Keypair
}

export const newCast = (): Cast => ({
  feePayer: Keypair.generate(),
  payer: Keypair.generate(),
  seller: Keypair.generate(),
})

export const addressOf = (keypair: Keypair): string => keypair.publicKey.toBase58()

export function termsOf(cast: Cast, asset: Asset, extra: Record<string, unknown> = {}): PaymentRequirements {
  return {
    scheme: 'exact',
    network,
    amount: '10000',
    asset: asset.address,
    payTo: addressOf(cast.seller),
    maxTimeoutSeconds: 60,
    extra: { feePayer: addressOf(cast.feePayer), ...extra },
  }
}

export const rulesOf = (cast: Cast, options: Partial<SolanaRulesOptions> = {}): SolanaRules =>
  solanaRules({ network, feePayers: [addressOf(cast.feePayer)], assets: [usdc, dollar2022], ...options })

/** A node that knows two mints and one block hash: all that the public client asks for before it signs. */
export async function startMintServer(): Promise<{ rpcUrl: string; close(): void }> {
  const server: Server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const { id, method, params } = JSON.parse(body)
      const result = method === 'getAccountInfo' ? mintAccount(params[0]) : blockhashResponse()
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    rpcUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

function mintAccount(mint: string) {
  const data = Buffer.alloc(82)
  data.writeBigUInt64LE(10n ** 15n, 36)
  data[44] = 6
  data[45] = 1
  const owner = tokenProgramAddress[mint === dollar2022.address ? 'token-2022' : 'token']
  const value = {
    data: [data.toString('base64'), 'base64'],
    executable: false,
    lamports: 1,
    owner,
    rentEpoch: 0,
    space: 82,
  }
  return { context: { slot: 1 }, value }
}

const blockhashResponse = () => ({
  context: { slot: 1 },
  value: { blockhash: addressOf(Keypair.generate()), lastValidBlockHeight: 1000 },
})

/** A payment made by the public client of @x402/svm. */
export async function realPayment(
  payer: Keypair,
  terms: PaymentRequirements,
  rpcUrl: string,
  version: 1 | 2 = 2,
): Promise<PaymentPayload> {
  const signer = await createKeyPairSignerFromBytes(payer.secretKey)
  if (version === 1) {
    const client = new ExactSvmSchemeV1(signer, { rpcUrl })
    const v1 = { ...terms, network: 'solana-devnet', maxAmountRequired: terms.amount }
    // The v1 client takes the v1 form under the v2 type.
    const made = await client.createPaymentPayload(1, v1 as never)
    return { x402Version: 1, scheme: 'exact', network: 'solana-devnet', payload: { ...made.payload } }
  }
  const client = new ExactSvmScheme(signer, { rpcUrl })
  const { payload } = await client.createPaymentPayload(2, terms as never)
  return paymentOf((payload as { transaction: string }).transaction)
}

export const paymentOf = (transaction: unknown): PaymentPayload => ({
  x402Version: 2,
  scheme: 'exact',
  network,
  payload: { transaction },
})

export const transactionOf = (payment: PaymentPayload): string => payment.payload['transaction'] as string

export const bytesOf = (payment: PaymentPayload): Buffer => Buffer.from(transactionOf(payment), 'base64')

/** A transaction taken apart, to be changed and put together again. */
export interface Draft {
  feePayer: PublicKey
  blockhash: string
  instructions: TransactionInstruction[]
  signers: Signer[]
  version: 'legacy' | 0
}

/** Takes a payment apart, changes it, and signs the result again with the draft's signers. */
export function edit(
  payment: PaymentPayload,
  payer: Keypair,
  change: (draft: Draft) => void,
): PaymentPayload {
  const { message } = VersionedTransaction.deserialize(bytesOf(payment))
  const read = TransactionMessage.decompile(message)
  const draft: Draft = {
    feePayer: read.payerKey,
    blockhash: read.recentBlockhash,
    instructions: read.instructions,
    signers: [payer],
    version: 0,
  }
  change(draft)
  const compiled = new TransactionMessage({
    payerKey: draft.feePayer,
    recentBlockhash: draft.blockhash,
    instructions: draft.instructions,
  })
  const made = draft.version === 0 ? compiled.compileToV0Message() : compiled.compileToLegacyMessage()
  const transaction = new VersionedTransaction(made)
  transaction.sign(draft.signers)
  return paymentOf(Buffer.from(transaction.serialize()).toString('base64'))
}

/** Changes the message below the level of instructions, and signs the result with the payer (the second signer). */
export function editMessage(
  payment: PaymentPayload,
  payer: Keypair,
  change: (message: MessageV0) => MessageV0,
): PaymentPayload {
  const { message } = VersionedTransaction.deserialize(bytesOf(payment))
  const transaction = new VersionedTransaction(change(message as MessageV0))
  transaction.sign([payer])
  return paymentOf(Buffer.from(transaction.serialize()).toString('base64'))
}

/** A copy of an instruction with other parts. */
export function changed(
  instruction: TransactionInstruction,
  parts: Partial<Pick<TransactionInstruction, 'keys' | 'programId' | 'data'>>,
): TransactionInstruction {
  const { keys, programId, data } = instruction
  return new TransactionInstruction({ keys, programId, data, ...parts })
}

export const instruction = (program: string, data: Uint8Array, keys: TransactionInstruction['keys'] = []) =>
  new TransactionInstruction({ programId: new PublicKey(program), data: Buffer.from(data), keys })
