import { base58 } from '@scure/base'

/** The 32 bytes of a base58 address; undefined when it is none. */
export function readAddress(address: string): Uint8Array | undefined {
  if (address.length < 32 || address.length > 44) return undefined
  try {
    const bytes = base58.decode(address)
    return bytes.length === 32 ? bytes : undefined
  } catch {
    return undefined
  }
}
