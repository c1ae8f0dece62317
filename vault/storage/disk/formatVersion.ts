import { VaultError } from '../../errors/error.ts'

/** Of the first 8 bytes of a sealed log and of a backup: the last two are the version of its format, in digits. */
const versionAt = 6

/**
 * Whether a file begins with the magic of its format and version.
 * @param name what the file is called in a message
 * @throws `VAULT_CORRUPT` when a newer version of Tollgate wrote it
 */
export function hasMagic(bytes: Buffer, magic: Buffer, name: string): boolean {
  const found = bytes.subarray(0, magic.length)
  if (found.equals(magic)) return true
  const version = found.toString('latin1', versionAt)
  const isNewer =
    found.subarray(0, versionAt).equals(magic.subarray(0, versionAt)) &&
    /^\d\d$/.test(version) &&
    version > magic.toString('latin1', versionAt)
  if (isNewer) throw newerVersion(name, magic.toString('latin1', versionAt), version)
  return false
}

export function newerVersion(name: string, expected: number | string, got: number | string): VaultError {
  const action = 'Install that version again, or restore a backup that this version wrote.'
  return new VaultError(
    'VAULT_CORRUPT',
    `Expected version ${expected} of ${name}, got version ${got}: a newer version of Tollgate wrote it. ${action}`,
    { action },
  )
}
