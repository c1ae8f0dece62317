import { HDKey as Bip32Key } from '@scure/bip32'
import { HDKey as Slip10Key } from 'micro-key-producer/slip10.js'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'

const MOST_INDEX = 2 ** 31 - 1

/**
 * Where a family's accounts are: BIP-44 for EVM, all hardened for Solana, because SLIP-10 has nothing else for Ed25519.
 * Test chains have the coin type 1, which SLIP-44 keeps for the test networks of all coins: a signature of such a key
 * moves nothing on a chain where money is real, whatever the signed bytes leave out.
 *
 * @see https://github.com/satoshilabs/slips/blob/master/slip-0044.md
 */
export function derivationPath(family: KeyFamily, index: number, isTest = false): string {
  if (!Number.isInteger(index) || index < 0 || index > MOST_INDEX) {
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected an account index from 0 to ${MOST_INDEX}, got ${index}.`,
    )
  }
  if (family === 'evm') return `m/44'/${isTest ? 1 : 60}'/0'/0/${index}`
  return `m/44'/${isTest ? 1 : 501}'/${index}'/0'`
}

/** The 32 private bytes at a path: BIP-32 on secp256k1 for EVM, SLIP-0010 on Ed25519 for Solana. The caller zeroes them. */
export function derivePrivateKey(family: KeyFamily, seed: Uint8Array, path: string): Buffer {
  if (family === 'solana') {
    const key = Slip10Key.fromMasterSeed(seed).derive(path)
    return takeOut(key.privateKey)
  }
  const key = Bip32Key.fromMasterSeed(seed).derive(path)
  // Can not be: only a public key lacks its private half, and the root came from a seed.
  if (key.privateKey === null) throw new Error('A derived key has no private half.')
  const privateKey = takeOut(key.privateKey)
  key.wipePrivateData()
  return privateKey
}

function takeOut(bytes: Uint8Array): Buffer {
  const copy = Buffer.from(bytes)
  bytes.fill(0)
  return copy
}
