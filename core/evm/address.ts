import { keccak256 } from './keccak.ts'

/** 20 bytes in hex, any case. */
export const addressForm = /^0x[0-9a-fA-F]{40}$/

/** Writes a lower-case address with the checksum in its letters' case. @see https://eips.ethereum.org/EIPS/eip-55 */
export function checksumAddress(lower: string): string {
  const digits = lower.slice(2)
  const hash = keccak256(Buffer.from(digits, 'latin1'))
  let out = '0x'
  for (let i = 0; i < 40; i++) {
    const nibble = i & 1 ? hash[i >> 1]! & 15 : hash[i >> 1]! >> 4
    out += nibble > 7 ? digits[i]!.toUpperCase() : digits[i]
  }
  return out
}
