import { fromEntropy, parseMnemonic, toEntropy, toSeed } from '../../keys/mnemonic.ts'

/** Bytes of a mnemonic's entropy (16 to 32), preceded by their number, and of the seed that it stretches to (64). */
export async function encodeSeed(mnemonic: string): Promise<Buffer> {
  const words = parseMnemonic(mnemonic)
  const entropy = toEntropy(words)
  // The seed is kept beside it, so that unlocking never needs the words as a string.
  const seed = await toSeed(words)
  try {
    return Buffer.concat([Uint8Array.of(entropy.length), entropy, seed])
  } finally {
    entropy.fill(0)
    seed.fill(0)
  }
}

/** The 64-byte seed of a record, in a buffer of its own. */
export function seedOf(record: Buffer): Buffer {
  return Buffer.from(record.subarray(1 + record[0]!))
}

/** The words of a record. */
export function mnemonicOf(record: Buffer): string {
  return fromEntropy(record.subarray(1, 1 + record[0]!))
}
