/** An address as the 32 bytes of a call or a topic, hex without 0x, lower case. */
export const addressWord = (address: string): string => address.slice(2).toLowerCase().padStart(64, '0')

/** A number in decimal digits as the 32 bytes of a call, hex without 0x. */
export const uintWord = (digits: string): string => BigInt(digits).toString(16).padStart(64, '0')

/** Bytes of any length, hex with 0x, as the words of a call: how many they are, and they themselves, filled up with zeros. */
export function bytesWords(hex: string): string {
  const bytes = hex.slice(2)
  return uintWord(String(bytes.length / 2)) + bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0')
}
