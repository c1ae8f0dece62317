import { VaultError } from '../errors/error.ts'
import type { KeyFamily } from '../ports/keyring.ts'

const derived = /^(evm|solana):(0|[1-9]\d{0,9})$/
const importName = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** The id of a derived key: family and account index. */
export function derivedKeyId(family: KeyFamily, index: number): string {
  return `${family}:${index}`
}

/** Family and index of a derived key's id, or undefined for others. */
export function parseDerivedKeyId(
  keyId: string,
): { readonly family: KeyFamily; readonly index: number } | undefined {
  const found = derived.exec(keyId)
  return found === null ? undefined : { family: found[1] as KeyFamily, index: Number(found[2]) }
}

/** The id of an imported key. @throws `VALIDATION_ERROR` for a name that is no lower-case word of at most 63 characters. */
export function importedKeyId(name: string): string {
  if (importName.test(name)) return `import:${name}`
  throw new VaultError(
    'VALIDATION_ERROR',
    'Expected a name of 1 to 63 lower-case letters, digits, - and _ for the key, such as treasury.',
  )
}
