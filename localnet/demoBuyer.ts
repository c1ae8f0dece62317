import { generateKeyPairSync } from 'node:crypto'
import { base58 } from '@scure/base'
import { createKeyPairSignerFromBytes } from '@solana/kit'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { LocalEvm } from './evm/startLocalEvm.ts'
import type { LocalSolana } from './solana/startLocalSolana.ts'

/** A buyer with a new wallet on a local chain, paying with the unmodified client of x402. */
export interface DemoBuyer {
  readonly network: string
  readonly address: string
  /** 0x-hex (EVM) or base58 of 64 bytes (Solana): worth nothing, the chain ends with the process. */
  readonly privateKey: string
  /** `fetch` that pays a 402 by itself. */
  readonly fetch: typeof fetch
  /** The payment header that was sent last; undefined before the first payment. */
  lastPayment(): string | undefined
}

/** @param amountAtomic USDC in the wallet, 6 decimals */
export async function createEvmDemoBuyer(chain: LocalEvm, amountAtomic: bigint): Promise<DemoBuyer> {
  const privateKey = generatePrivateKey()
  const account = privateKeyToAccount(privateKey)
  await chain.mintUsdc(account.address, amountAtomic)
  const paying = payWith(chain.network, new ExactEvmScheme(account))
  return { network: chain.network, address: account.address, privateKey, ...paying }
}

/** @param amountAtomic USDC in the wallet, 6 decimals */
export async function createSolanaDemoBuyer(chain: LocalSolana, amountAtomic: bigint): Promise<DemoBuyer> {
  const secret = newSolanaSecret()
  const signer = await createKeyPairSignerFromBytes(secret)
  chain.mintUsdc(signer.address, amountAtomic)
  const paying = payWith(chain.network, new ExactSvmScheme(signer, { rpcUrl: chain.rpcUrl }))
  return { network: chain.network, address: signer.address, privateKey: base58.encode(secret), ...paying }
}

/** 32 bytes of seed and 32 of public key: Solana's usual form of a key. */
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
