import { Keypair } from '@solana/web3.js'
import type { Address } from 'viem'
import { tokenProgramAddress } from '../../../core/solana/addresses.ts'
import { sendSolana, sendUsdc, transferInstruction } from '../../helpers/localnet/sendToken.ts'
import type { Chain, Chains, SellerWallets } from './chains.ts'

/** The seller's wallet sends USDC, as its owner would with any wallet. @returns the transaction */
export async function sendBack(
  { evm, solana }: Chains,
  chain: Chain,
  wallets: SellerWallets,
  to: string,
  amountAtomic: bigint,
): Promise<string> {
  if (chain.name === 'evm') return sendUsdc(evm, wallets.base as Address, to as Address, amountAtomic)
  const transfer = { from: wallets.solana, to, amountAtomic }
  const instruction = transferInstruction(solana, tokenProgramAddress.token, transfer)
  return sendSolana(solana, [Keypair.fromSecretKey(wallets.solanaSecret)], [instruction])
}
