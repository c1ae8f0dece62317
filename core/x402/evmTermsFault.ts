import { canonicalAddress } from '../domain/address.ts'
import { builtInAssets } from '../domain/asset.ts'
import { addressForm } from '../evm/address.ts'
import type { OfferTerms } from './offerTerms.ts'

/** Precompiles live at small numbers; nothing that can spend a token is there. @see EIP-1352 */
const RESERVED_BELOW = 0x10000n
const BURN_ADDRESS = '0x000000000000000000000000000000000000dead'

/**
 * Why the terms of an offer by EIP-3009 must not be signed, in words; undefined when they may: a token whose domain is
 * known and named truly, an amount in range, a payee that can be a wallet.
 *
 * @param payer our own address
 */
export function evmTermsFault(
  { asset, amountAtomic, payTo, extra }: OfferTerms,
  payer: string,
): string | undefined {
  if (amountAtomic <= 0n || amountAtomic >= 2n ** 256n) return 'the amount is out of range'
  if (asset.eip712 === undefined) return `the EIP-712 domain of ${asset.symbol} is not known`
  // A wrong domain makes a signature that nobody can use here, and that might be good for another token.
  if (extra['name'] !== asset.eip712.name || extra['version'] !== asset.eip712.version) {
    return `extra.name and extra.version are not the token's EIP-712 domain, "${asset.eip712.name}" and "${asset.eip712.version}"`
  }
  return evmPayeeFault(payTo, payer, asset.address)
}

/**
 * Why an EVM address must not be paid, in words; undefined when it may. An address in mixed case must have its EIP-55
 * checksum: a wrong one is a typing error or a tampered offer.
 *
 * @param payer our own address   @param token the token that is paid
 */
function evmPayeeFault(payTo: string, payer: string, token: string): string | undefined {
  if (!addressForm.test(payTo)) return 'payTo is not a 0x address of 20 bytes'
  const address = payTo.toLowerCase()
  if (canonicalAddress('eip155', payTo) === undefined) return 'payTo has a wrong EIP-55 checksum'
  if (BigInt(address) === 0n || address === BURN_ADDRESS) return 'payTo is an address that burns'
  if (BigInt(address) < RESERVED_BELOW) return 'payTo is a precompiled contract'
  const isToken = builtInAssets.some((known) => known.address.toLowerCase() === address)
  if (isToken || address === token.toLowerCase()) return 'payTo is a token, not a wallet'
  if (address === payer.toLowerCase()) return 'payTo is your own wallet'
}
