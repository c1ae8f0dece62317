import { canonicalAddress } from '../../core/domain/address.ts'
import { readAddress } from '../../core/solana/address.ts'
import { tokenAccountOf } from '../../core/solana/tokenAccountOf.ts'
import { type AssetTable, pinnedAssets } from './assets.ts'
import type { Decoded } from './decoded.ts'
import type { TransferEffect } from './effect.ts'
import { finish } from './finish.ts'

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
  if (pinned === undefined || readAddress(asset.address) === undefined) return false
  return tokenAccountOf(address, pinned) === to
}

/**
 * Says of each transfer whose wallet it goes to, where one of the wallets named is proved to own the token account. On
 * Solana a transfer names a token account only; without this a limit on a wallet, and a person, would not know it again.
 * Changes words and `toOwner`, never bytes.
 *
 * @param wallets addresses that mean something to the owner: those of the claim, of rules and of limits; others are ignored
 */
export function nameRecipients(
  decoded: Decoded,
  wallets: Iterable<string>,
  assets: AssetTable = pinnedAssets,
): Decoded {
  const known = new Set(wallets)
  let isChanged = false
  const effects = decoded.effects.map((effect) => {
    if (effect.kind !== 'transfer' || effect.toOwner !== undefined) return effect
    const owner = [...known].find((wallet) => wallet !== effect.to && goesTo(effect, wallet, assets))
    // On EVM the address itself is the wallet, in whatever case it was named.
    if (owner === undefined || effect.to.startsWith('0x')) return effect
    isChanged = true
    return { ...effect, toOwner: owner }
  })
  return isChanged ? finish(assets, { ...decoded, effects }) : decoded
}
