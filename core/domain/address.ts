import { addressForm, checksumAddress } from '../evm/address.ts'
import { readAddress } from '../solana/address.ts'
import type { ChainFamily } from './network.ts'

/**
 * The one spelling of an address, so that equal text is the same wallet: EVM with its EIP-55 checksum, Solana base58 of
 * 32 bytes. An EVM address in mixed case must have the right checksum, because a wrong one is a typing error or tampered
 * with.
 *
 * @returns undefined when it is no address of the chain's family
 */
export function canonicalAddress(family: ChainFamily, text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined
  if (family === 'solana') return readAddress(text) === undefined ? undefined : text
  if (!addressForm.test(text)) return undefined
  const checksummed = checksumAddress(text.toLowerCase())
  const digits = text.slice(2)
  const isMixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase()
  return isMixed && checksummed !== text ? undefined : checksummed
}

/** Whether what somebody wrote is a known address: in any case on EVM, to the letter on Solana. */
export const isSameAddress = (family: ChainFamily | undefined, text: unknown, known: string): boolean =>
  typeof text === 'string' &&
  (family === 'solana' ? text === known : text.toLowerCase() === known.toLowerCase())
