import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'

const derived = /^(evm|solana)(-test)?:(0|[1-9]\d{0,9})$/
const importName = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** Which derived key: its family, its account index, and whether it is for test chains. */
export interface DerivedKey {
  readonly family: KeyFamily
  readonly index: number
  readonly isTest: boolean
}

/** The id of a derived key: family and account index, `-test` behind the family of a key for test chains. */
export function derivedKeyId(family: KeyFamily, index: number, isTest = false): string {
  return `${family}${isTest ? '-test' : ''}:${index}`
}

/** What a derived key's id says, or undefined for others. */
export function parseDerivedKeyId(keyId: string): DerivedKey | undefined {
  const found = derived.exec(keyId)
  return found === null
    ? undefined
    : { family: found[1] as KeyFamily, index: Number(found[3]), isTest: found[2] !== undefined }
}

/** The id of an imported key. @throws `VALIDATION_ERROR` for a name that is no lower-case word of at most 63 characters. */
export function importedKeyId(name: string): string {
  if (importName.test(name)) return `import:${name}`
  throw new VaultError(
    'VALIDATION_ERROR',
    'Expected a name of 1 to 63 lower-case letters, digits, - and _ for the key, such as treasury.',
  )
}
