import { base58 } from '@scure/base'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { newSolanaSecret } from './demoBuyer.ts'
import type { LocalEvm } from './evm/startLocalEvm.ts'
import type { LocalSolana } from './solana/startLocalSolana.ts'

/** Keys that pay the fees of settlements on the local chains, funded: what an operator brings on a real network. */
export interface DemoFacilitator {
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
