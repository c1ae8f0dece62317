import { base58 } from '@scure/base'
import { familyOf, type NetworkId } from './network.ts'

const signatureBytes = 64
/** Base58 writes 64 bytes in 64 to 88 characters. */
const signatureForm = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/

/**
 * The one spelling of a transaction's id: a 32-byte hash in lower case (EVM), or the base58 of a 64-byte signature
 * (Solana), in which case counts.
 *
 * @returns undefined for anything that can not be one on this network
 */
export function canonicalTransaction(network: NetworkId, text: string): string | undefined {
  if (familyOf(network) === 'eip155') return /^0x[0-9a-fA-F]{64}$/.test(text) ? text.toLowerCase() : undefined
  return signatureForm.test(text) && base58.decode(text).length === signatureBytes ? text : undefined
}
