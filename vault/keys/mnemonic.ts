import { pbkdf2 } from 'node:crypto'
import { promisify } from 'node:util'
import { entropyToMnemonic, generateMnemonic, mnemonicToEntropy } from '@scure/bip39'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import { VaultError } from '../errors/error.ts'

/** A record of a mnemonic: the number of its entropy bytes, the entropy (16 to 32 bytes), and the derived seed (64 bytes). */
export async function encodeSeed(mnemonic: string): Promise<Buffer> {
  const words = parseMnemonic(mnemonic)
  const entropy = toEntropy(words)
  // The record contains the seed, so that unlocking never needs the words as a string.
  const seed = await toSeed(words)
  try {
    return Buffer.concat([Uint8Array.of(entropy.length), entropy, seed])
  } finally {
    entropy.fill(0)
    seed.fill(0)
  }
}

/** The 64-byte seed of a record, in a new buffer. */
export function seedOf(record: Buffer): Buffer {
  return Buffer.from(record.subarray(1 + record[0]!))
}

/** The words of a record. */
export function mnemonicOf(record: Buffer): string {
  return fromEntropy(record.subarray(1, 1 + record[0]!))
}

const stretch = promisify(pbkdf2)
const seedBytes = 64
const rounds = 2048

/** 24 random words (BIP-39, English, 256 bits). */
export function createMnemonic(): string {
  return generateMnemonic(wordlist, 256)
}

/**
 * The words of a mnemonic in lower case, separated by single spaces.
 * @throws `VALIDATION_ERROR` unless they are 12, 15, 18, 21 or 24 English words with a valid checksum. The message does not
 *   contain them
 */
export function parseMnemonic(text: string): string {
  const words = text.normalize('NFKD').trim().toLowerCase().split(/\s+/)
  const mnemonic = words.join(' ')
  try {
    mnemonicToEntropy(mnemonic, wordlist).fill(0)
    return mnemonic
  } catch {
    const unknown = words.flatMap((word, i) => (wordlist.includes(word) ? [] : [i + 1]))
    const what =
      unknown.length > 0
        ? `word ${unknown.join(', ')} is not in the word list`
        : `${words.length} words with a wrong checksum`
    // The error has no cause, because the library's message may quote a word.
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected 12, 15, 18, 21 or 24 English BIP-39 words with a valid checksum, got ${what}. Check the order and the spelling.`,
    )
  }
}

/** The entropy of a parsed mnemonic. It is stored instead of the words, because bytes can be wiped and strings cannot. */
export function toEntropy(mnemonic: string): Buffer {
  const entropy = mnemonicToEntropy(mnemonic, wordlist)
  const copy = Buffer.from(entropy)
  entropy.fill(0)
  return copy
}

/** The words again, for the owner's export. */
export function fromEntropy(entropy: Uint8Array): string {
  return entropyToMnemonic(entropy, wordlist)
}

/** The 64-byte seed: PBKDF2-HMAC-SHA512, 2048 rounds, over NFKD (BIP-39, "From mnemonic to seed"). */
export async function toSeed(mnemonic: string, passphrase = ''): Promise<Buffer> {
  const salt = Buffer.from(`mnemonic${passphrase}`.normalize('NFKD'), 'utf8')
  const words = Buffer.from(mnemonic.normalize('NFKD'), 'utf8')
  try {
    return await stretch(words, salt, rounds, seedBytes, 'sha512')
  } finally {
    words.fill(0)
    salt.fill(0)
  }
}
