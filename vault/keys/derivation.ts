import { HDKey as Bip32Key } from '@scure/bip32'
import { HDKey as Slip10Key } from 'micro-key-producer/slip10.js'
import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'

const MAX_INDEX = 2 ** 31 - 1

/**
 * The derivation path of an account. It follows BIP-44 for EVM. For Solana all steps are hardened, because SLIP-10 supports
 * nothing else for Ed25519. Test chains have the coin type 1, which SLIP-44 reserves for the test networks of all coins. A
 * signature of such a key moves nothing on a chain with real money, even if the signed bytes name no chain.
 *
 * @see https://github.com/satoshilabs/slips/blob/master/slip-0044.md
 */
export function derivationPath(family: KeyFamily, index: number, isTest = false): string {
  if (!Number.isInteger(index) || index < 0 || index > MAX_INDEX) {
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected an account index from 0 to ${MAX_INDEX}, got ${index}.`,
    )
  }
  if (family === 'evm') return `m/44'/${isTest ? 1 : 60}'/0'/0/${index}`
  return `m/44'/${isTest ? 1 : 501}'/${index}'/0'`
}

/**
 * The 32 private bytes at a path, by BIP-32 on secp256k1 for EVM and by SLIP-0010 on Ed25519 for Solana. The caller zeroes
 * them.
 */
export function derivePrivateKey(family: KeyFamily, seed: Uint8Array, path: string): Buffer {
  if (family === 'solana') {
    const key = Slip10Key.fromMasterSeed(seed).derive(path)
    return takeOut(key.privateKey)
  }
  const key = Bip32Key.fromMasterSeed(seed).derive(path)
  // This cannot happen, because a key that comes from a seed has a private half.
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

const derived = /^(evm|solana)(-test)?:(0|[1-9]\d{0,9})$/
const importName = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** A derived key: its family, its account index, and whether it is for test chains. */
interface DerivedKey {
  readonly family: KeyFamily
  readonly index: number
  readonly isTest: boolean
}

/** The id of a derived key: family and account index, with `-test` after the family for test chains. */
export function derivedKeyId(family: KeyFamily, index: number, isTest = false): string {
  return `${family}${isTest ? '-test' : ''}:${index}`
}

/** Parses the id of a derived key. Undefined for other ids. */
export function parseDerivedKeyId(keyId: string): DerivedKey | undefined {
  const found = derived.exec(keyId)
  return found === null
    ? undefined
    : { family: found[1] as KeyFamily, index: Number(found[3]), isTest: found[2] !== undefined }
}

/** The id of an imported key. @throws `VALIDATION_ERROR` unless the name is a lower-case word of at most 63 characters */
export function importedKeyId(name: string): string {
  if (importName.test(name)) return `import:${name}`
  throw new VaultError(
    'VALIDATION_ERROR',
    'Expected a name of 1 to 63 lower-case letters, digits, - and _ for the key, such as treasury.',
  )
}
