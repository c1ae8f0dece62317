/** An address as the 32 bytes of a call or a topic, hex without 0x, lower case. */
export const addressWord = (address: string): string => address.slice(2).toLowerCase().padStart(64, '0')

/** A number in decimal digits as the 32 bytes of a call, hex without 0x. */
export const uintWord = (digits: string): string => BigInt(digits).toString(16).padStart(64, '0')
