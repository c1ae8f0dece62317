import { createHash, randomBytes } from 'node:crypto'
import { VaultError } from '../../errors/error.ts'
import type { KdfParameters, PasswordHasher } from '../../ports/passwordHasher.ts'
import type { Proof } from '../../signer/protocol.ts'
import { lengthPrefixed } from '../disk/aead.ts'
import { assertWithinBounds, saltBytes } from './kdf.ts'

/**
 * How records are wrapped: in vaults of version 1 all of them under the master key; from version 2 on those of keys alone, and
 * every other one, with the files, under keys derived from it. A vault of version 1 becomes one of version 2 when it is opened.
 */
export type HeaderVersion = 1 | 2
export const newestVersion: HeaderVersion = 2

/** What stands in the open in `vault.json`: how the password key is made, and the master key under it. */
export interface VaultHeader {
  readonly version: HeaderVersion
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
  version: vault.version,
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
    version: header.version,
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
  const checksum = createHash('sha256').update(JSON.stringify(body)).digest('hex')
  return Buffer.from(`${JSON.stringify({ ...body, checksum }, null, 2)}\n`)
}

/** @throws `VAULT_CORRUPT` unless these are the bytes that {@link encodeHeader} gives, to the last blank. */
export function decodeHeader(bytes: Buffer): VaultHeader {
  try {
    const text = JSON.parse(bytes.toString('utf8'))
    const { memoryKiB, passes, lanes, salt } = text.kdf
    const header: VaultHeader = {
      version: text.version,
      vaultId: String(text.vaultId),
      createdAt: String(text.createdAt),
      files: String(text.files ?? ''),
      kdf: { memoryKiB, passes, lanes },
      salt: Buffer.from(String(salt), 'hex'),
      wrappedKey: Buffer.from(String(text.wrappedKey), 'hex'),
    }
    if (text.version !== 1 && text.version !== newestVersion)
      throw new Error(`version ${JSON.stringify(text.version)}`)
    if (!encodeHeader(header).equals(bytes)) throw new Error('checksum')
    assertWithinBounds(header.kdf)
    return header
  } catch (cause) {
    throw new VaultError(
      'VAULT_CORRUPT',
      'vault.json is damaged, of another version, or asks for a weaker password key than allowed. Restore the newest backup.',
      { cause },
    )
  }
}

/**
 * What the wrapped master key belongs to. The parameters are part of what its tag covers: a header that asks for less work
 * opens nothing.
 */
export function associatedOf({ version, vaultId, createdAt, files, kdf, salt }: OpenHeader): Buffer {
  return lengthPrefixed(
    format,
    String(version),
    vaultId,
    createdAt,
    `argon2id m=${kdf.memoryKiB} t=${kdf.passes} p=${kdf.lanes}`,
    salt,
    ...(files === '' ? [] : [files]),
  )
}
