import { base58 } from '@scure/base'
import type { Asset } from '../domain/asset.ts'
import { readAddress } from './address.ts'
import { associatedTokenAddress } from './associatedTokenAddress.ts'
import { tokenProgramBytes } from './programs.ts'

/** The associated token account of a wallet for an asset, in base58. About 0.3 ms. @throws {TypeError} when one is no address */
export function tokenAccountOf(owner: string, asset: Pick<Asset, 'address' | 'program'>): string {
  const [wallet, mint] = [readAddress(owner), readAddress(asset.address)]
  if (wallet === undefined || mint === undefined)
    throw new TypeError('Expected addresses of 32 bytes in base58.')
  return base58.encode(associatedTokenAddress(wallet, tokenProgramBytes[asset.program ?? 'token'], mint))
}
