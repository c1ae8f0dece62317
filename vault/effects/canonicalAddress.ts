import { base58 } from '@scure/base'
import type { ChainFamily } from '../../core/domain/network.ts'
import { addressForm, checksumAddress } from '../../core/evm/address.ts'
import { readAddress } from '../../core/solana/readAddress.ts'

/**
 * The one spelling of an address that effects use: EVM with its EIP-55 checksum, Solana base58. An EVM address in mixed
 * case must have the right checksum, because a wrong one is a typing error or tampered with.
 *
 * @returns undefined when it is no address of the chain's family
 */
export function canonicalAddress(family: ChainFamily, text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined
  if (family === 'solana') {
    const bytes = readAddress(text)
    return bytes !== undefined && base58.encode(bytes) === text ? text : undefined
  }
  if (!addressForm.test(text)) return undefined
  const checksummed = checksumAddress(text.toLowerCase())
  const digits = text.slice(2)
  const isMixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase()
  return isMixed && checksummed !== text ? undefined : checksummed
}
