import { canonicalAddress } from '../domain/address.ts'
import { builtInAssets } from '../domain/asset.ts'
import { channelScheme } from '../domain/channel.ts'
import { addressForm } from '../evm/hex.ts'
import { channelTermsFault } from './channelTerms.ts'
import type { OfferTerms } from './offerTerms.ts'

/** Addresses below this number are reserved for precompiles, which cannot spend a token. @see EIP-1352 */
const RESERVED_BELOW = 0x10000n
const BURN_ADDRESS = '0x000000000000000000000000000000000000dead'

/**
 * Why the terms of an EVM offer must not be signed, as a message. Undefined if they may be signed. The amount must be in range, and
 * the payee must be an address that can be a wallet. If the payment is an authorization of EIP-3009, the token's domain must be known
 * and correct. A payment by Permit2 is signed under Permit2's domain.
 *
 * @param payer our own address
 */
export function evmTermsFault(
  { scheme, asset, amountAtomic, payTo, extra, permit2 }: OfferTerms,
  payer: string,
): string | undefined {
  if (amountAtomic <= 0n || amountAtomic >= 2n ** 256n) return 'the amount is out of range'
  const channelFault = scheme === channelScheme ? channelTermsFault(extra) : undefined
  if (permit2 !== undefined) return channelFault ?? evmPayeeFault(payTo, payer, asset.address)
  if (asset.eip712 === undefined) return `the EIP-712 domain of ${asset.symbol} is not known`
  // A signature with another domain cannot be used here, and might be valid for another token.
  if (extra['name'] !== asset.eip712.name || extra['version'] !== asset.eip712.version) {
    return `extra.name and extra.version are not the token's EIP-712 domain, "${asset.eip712.name}" and "${asset.eip712.version}"`
  }
  return channelFault ?? evmPayeeFault(payTo, payer, asset.address)
}

/**
 * Why an EVM address must not be paid, as a message. Undefined if it may be paid. An address in mixed case must have its EIP-55
 * checksum, because a wrong checksum shows a typing error or a tampered offer.
 *
 * @param payer our own address
 * @param token the token that is paid
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
