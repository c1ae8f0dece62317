import { base58 } from '@scure/base'
import { associatedTokenAddress } from '../../core/solana/associatedTokenAddress.ts'
import { tokenProgramBytes } from '../../core/solana/programs.ts'
import { readAddress } from '../../core/solana/readAddress.ts'
import { type AssetTable, pinnedAssets } from './assets.ts'
import { canonicalAddress } from './canonicalAddress.ts'
import type { TransferEffect } from './effect.ts'

/**
 * Whether a transfer goes to a recipient: to that very address, or on Solana to the recipient's associated account for
 * the token. The owner is proved by deriving the account, never by asking a node.
 */
export function goesTo(
  effect: TransferEffect,
  recipient: string,
  assets: AssetTable = pinnedAssets,
): boolean {
  const { asset, to } = effect
  const { family } = assets.chains.of(asset.chain)
  const address = canonicalAddress(family, recipient)
  if (address === undefined) return false
  if (to === address || effect.toOwner === address) return true
  if (family !== 'solana' || asset.address === 'native') return false
  const pinned = assets.byAddress(asset.chain, asset.address)
  const mint = readAddress(asset.address)
  if (pinned === undefined || mint === undefined) return false
  const program = tokenProgramBytes[pinned.program ?? 'token']
  return base58.encode(associatedTokenAddress(readAddress(address)!, program, mint)) === to
}
