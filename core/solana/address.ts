import { base58 } from '@scure/base'

/** The 32 bytes of a base58 address; undefined when it is none. Base58 has one spelling a value, so that equal text is the same address. */
export function readAddress(address: string): Uint8Array | undefined {
  // 32 bytes are 32 to 44 digits; longer text is not worth decoding.
  if (address.length < 32 || address.length > 44) return undefined
  try {
    const bytes = base58.decode(address)
    return bytes.length === 32 ? bytes : undefined
  } catch {
    return undefined
  }
}
