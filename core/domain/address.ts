import { addressForm, checksumAddress } from '../evm/hex.ts'
import { readAddress } from '../solana/addresses.ts'
import type { ChainFamily } from './network.ts'

/**
 * The one spelling of an address that Tollgate stores, so that equal texts mean the same wallet. It is the EIP-55 checksum on EVM,
 * and base58 of 32 bytes on Solana. An EVM address in mixed case must have the right checksum, because a wrong one shows a typing
 * error or tampering.
 *
 * @returns undefined if the text is no address of the chain's family
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

/** Whether a text is the same address as a known one, in any case on EVM and exactly on Solana. */
export const isSameAddress = (family: ChainFamily | undefined, text: unknown, known: string): boolean =>
  typeof text === 'string' &&
  (family === 'solana' ? text === known : text.toLowerCase() === known.toLowerCase())
