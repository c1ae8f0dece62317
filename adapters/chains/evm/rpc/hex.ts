/** Bytes in hex, with 0x. */
export type Hex = `0x${string}`
