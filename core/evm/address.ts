import { keccak256 } from './keccak.ts'

/** 20 bytes in hex, any case. */
export const addressForm = /^0x[0-9a-fA-F]{40}$/

/** Writes a lower-case address with the checksum in its letters' case. @see https://eips.ethereum.org/EIPS/eip-55 */
export function checksumAddress(lower: string): string {
  const text = Buffer.from(lower, 'latin1')
  const hash = keccak256(text.subarray(2))
  for (let i = 0; i < 40; i++) {
    const nibble = i & 1 ? hash[i >> 1]! & 15 : hash[i >> 1]! >> 4
    const char = text[2 + i]!
    if (nibble > 7 && char >= letterA) text[2 + i] = char - 0x20
  }
  return text.toString('latin1')
}

const letterA = 0x61
