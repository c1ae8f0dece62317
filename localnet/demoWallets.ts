import { generateKeyPairSync } from 'node:crypto'
import { base58 } from '@scure/base'
import { createKeyPairSignerFromBytes } from '@solana/kit'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { generatePrivateKey, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'
import type { LocalEvm } from './evm/startLocalEvm.ts'
import type { LocalSolana } from './solana/startLocalSolana.ts'

/** A seller with a wallet on each local chain. */
export interface DemoSeller {
  readonly evmAddress: string
  readonly solanaAddress: string
  /** Key of the EVM wallet, in hex with 0x. It is worthless, because the chain ends with the process. */
  readonly evmPrivateKey: string
  /** Signs a sign-in text with the EVM wallet (EIP-191). The signature is in hex. */
  signMessage(message: string): Promise<string>
}

/** Creates a seller. It also creates the USDC account of the Solana wallet, because an x402 payment never creates one. */
export function createDemoSeller(solana: LocalSolana): DemoSeller {
  const evmPrivateKey = generatePrivateKey()
  const account = privateKeyToAccount(evmPrivateKey)
  const solanaAddress = base58.encode(newSolanaSecret().subarray(32))
  solana.createAta(solanaAddress)
  return {
    evmAddress: account.address,
    solanaAddress,
    evmPrivateKey,
    signMessage: (message) => account.signMessage({ message }),
  }
}

/** Funded keys that pay the fees of settlements on the local chains. On a real network, the operator provides such keys. */
interface DemoFacilitator {
  readonly evmKey: string
  readonly solanaKey: string
}

export async function createDemoFacilitator(evm: LocalEvm, solana: LocalSolana): Promise<DemoFacilitator> {
  const evmKey = generatePrivateKey()
  const secret = newSolanaSecret()
  await evm.fundEth(privateKeyToAddress(evmKey), 10n ** 18n)
  solana.airdrop(base58.encode(secret.subarray(32)), 10_000_000_000n)
  return { evmKey, solanaKey: base58.encode(secret) }
}

/** A buyer with a new wallet on a local chain. The buyer pays with the unmodified x402 client. */
export interface DemoBuyer {
  readonly network: string
  readonly address: string
  /** In hex with 0x (EVM), or base58 of 64 bytes (Solana). It is worthless, because the chain ends with the process. */
  readonly privateKey: string
  /** A `fetch` that pays a 402 automatically. */
  readonly fetch: typeof fetch
  /** The payment header that was sent last. Undefined before the first payment. */
  lastPayment(): string | undefined
}

/** Also allows Permit2 to move the wallet's USDC, for prices by use. @param amountAtomic USDC in the wallet, with 6 decimals */
export async function createEvmDemoBuyer(chain: LocalEvm, amountAtomic: bigint): Promise<DemoBuyer> {
  const privateKey = generatePrivateKey()
  const account = privateKeyToAccount(privateKey)
  await chain.mintUsdc(account.address, amountAtomic)
  await chain.allowPermit2(account.address)
  const paying = payWith(chain.network, new ExactEvmScheme(account))
  return { network: chain.network, address: account.address, privateKey, ...paying }
}

/** @param amountAtomic USDC in the wallet, with 6 decimals */
export async function createSolanaDemoBuyer(chain: LocalSolana, amountAtomic: bigint): Promise<DemoBuyer> {
  const secret = newSolanaSecret()
  const signer = await createKeyPairSignerFromBytes(secret)
  chain.mintUsdc(signer.address, amountAtomic)
  const paying = payWith(chain.network, new ExactSvmScheme(signer, { rpcUrl: chain.rpcUrl }))
  return { network: chain.network, address: signer.address, privateKey: base58.encode(secret), ...paying }
}

/** A new key of 32 bytes of seed and 32 bytes of public key, which is Solana's usual form. */
export function newSolanaSecret(): Uint8Array {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { d, x } = privateKey.export({ format: 'jwk' })
  return Buffer.concat([Buffer.from(d!, 'base64url'), Buffer.from(x!, 'base64url')])
}

type Scheme = ExactEvmScheme | ExactSvmScheme

function payWith(network: string, client: Scheme): Pick<DemoBuyer, 'fetch' | 'lastPayment'> {
  let sent: string | undefined
  const watching: typeof fetch = (input, init) => {
    const request = new Request(input, init)
    sent = request.headers.get('payment-signature') ?? sent
    return fetch(request)
  }
  const schemes = [{ network: network as `${string}:${string}`, client }]
  return { fetch: wrapFetchWithPaymentFromConfig(watching, { schemes }), lastPayment: () => sent }
}
