import { createHash, randomBytes } from 'node:crypto'
import { VaultError } from '../../errors/error.ts'
import type { KdfParameters, PasswordHasher } from '../../ports/passwordHasher.ts'
import type { Proof } from '../../signer/protocol.ts'
import { lengthPrefixed } from '../disk/aead.ts'
import { newerVersion } from '../disk/formatVersion.ts'
import { assertWithinBounds, saltBytes } from './kdf.ts'

/** Of `vault.json`, and of how its keys seal the other files. A vault of another version is refused. */
const headerVersion = 2

/** What stands in the open in `vault.json`: how the password key is made, and the master key under it. */
export interface VaultHeader {
  readonly vaultId: string
  /** ISO 8601. */
  readonly createdAt: string
  readonly kdf: KdfParameters
  /** How far the vault's files had come when the password was changed last; empty before the first change. */
  readonly files: string
  /** 16 bytes, new with every password. */
  readonly salt: Buffer
  readonly wrappedKey: Buffer
}

const format = 'tollgate-vault'

/** A header that waits for its wrapped key. */
export type OpenHeader = Omit<VaultHeader, 'wrappedKey'>

/** A header for a password that is new: with a salt of its own. */
export const headerFor = (vault: Omit<OpenHeader, 'salt'>): OpenHeader => ({
  files: vault.files,
  vaultId: vault.vaultId,
  createdAt: vault.createdAt,
  kdf: vault.kdf,
  salt: randomBytes(saltBytes),
})

/** What a password key proves with a header. The key is the caller's. */
export const proofOf = (header: VaultHeader, passwordKey: Uint8Array): Proof => ({
  vaultId: header.vaultId,
  wrappedKey: header.wrappedKey,
  associated: associatedOf(header),
  passwordKey,
})

/** The 32 bytes that a password gives for a header, and that wrap the master key. The caller zeroes them. */
export function passwordKeyOf(header: OpenHeader, password: string, hasher: PasswordHasher): Promise<Buffer> {
  assertWithinBounds(header.kdf)
  return hasher.hash(password, header.salt, header.kdf)
}

/** `vault.json`. It has a checksum, so that a changed bit is called damage and not a wrong password. */
export function encodeHeader(header: VaultHeader): Buffer {
  const body = {
    format,
    version: headerVersion,
    vaultId: header.vaultId,
    createdAt: header.createdAt,
    ...(header.files !== '' && { files: header.files }),
    kdf: {
      algorithm: 'argon2id',
      memoryKiB: header.kdf.memoryKiB,
      passes: header.kdf.passes,
      lanes: header.kdf.lanes,
      salt: header.salt.toString('hex'),
    },
    wrappedKey: header.wrappedKey.toString('hex'),
  }
  return Buffer.from(`${JSON.stringify({ ...body, checksum: checksumOf(body) }, null, 2)}\n`)
}

const checksumOf = (body: object): string => createHash('sha256').update(JSON.stringify(body)).digest('hex')

/**
 * @throws `VAULT_CORRUPT` unless these are the bytes that {@link encodeHeader} gives, to the last blank. A header that is whole
 *         and of another version is named as that: every version has `version`, and a checksum over what is before it.
 */
export function decodeHeader(bytes: Buffer): VaultHeader {
  let version: unknown = headerVersion
  try {
    const { checksum, ...text } = JSON.parse(bytes.toString('utf8'))
    if (checksum !== checksumOf(text)) throw new Error('checksum')
    version = text.version
    const { memoryKiB, passes, lanes, salt } = text.kdf
    const header: VaultHeader = {
      vaultId: String(text.vaultId),
      createdAt: String(text.createdAt),
      files: String(text.files ?? ''),
      kdf: { memoryKiB, passes, lanes },
      salt: Buffer.from(String(salt), 'hex'),
      wrappedKey: Buffer.from(String(text.wrappedKey), 'hex'),
    }
    if (!encodeHeader(header).equals(bytes)) throw new Error('not as it was written')
    assertWithinBounds(header.kdf)
    return header
  } catch (cause) {
    if (version !== headerVersion) throw otherVersion(version)
    throw new VaultError(
      'VAULT_CORRUPT',
      'vault.json is damaged, or asks for a weaker password key than allowed. Restore the newest backup.',
      { cause },
    )
  }
}

function otherVersion(version: unknown): VaultError {
  if (typeof version === 'number' && version > headerVersion)
    return newerVersion('vault.json', headerVersion, version)
  const action =
    'Create a new vault in another folder: tollgate vault init; --mnemonic-file brings the recovery words along.'
  return new VaultError(
    'VAULT_CORRUPT',
    `Expected version ${headerVersion} of vault.json, got version ${JSON.stringify(version)}: this version of Tollgate does not open it. ${action}`,
    { action },
  )
}

/**
 * What the wrapped master key belongs to. The parameters are part of what its tag covers: a header that asks for less work
 * opens nothing.
 */
export function associatedOf({ vaultId, createdAt, files, kdf, salt }: OpenHeader): Buffer {
  return lengthPrefixed(
    format,
    String(headerVersion),
    vaultId,
    createdAt,
    `argon2id m=${kdf.memoryKiB} t=${kdf.passes} p=${kdf.lanes}`,
    salt,
    ...(files === '' ? [] : [files]),
  )
}
