import { createHash, randomBytes } from 'node:crypto'
import { VaultError } from '../errors/error.ts'
import type { KdfParameters, PasswordHasher } from '../ports/passwordHasher.ts'
import { lengthPrefixed, seal, unseal } from './aead.ts'
import { assertWithinBounds, saltBytes } from './kdf.ts'

/** What stands in the open in `vault.json`: how the password key is made, and the master key under it. */
export interface VaultHeader {
  readonly vaultId: string
  /** ISO 8601. */
  readonly createdAt: string
  readonly kdf: KdfParameters
  /** 16 bytes, new with every password. */
  readonly salt: Buffer
  readonly wrappedKey: Buffer
}

const format = 'tollgate-vault'
const formatVersion = 1

/** Wraps a master key under a password. The header it gives opens with this password alone. */
export async function wrapMasterKey(
  vault: { readonly vaultId: string; readonly createdAt: string; readonly kdf: KdfParameters },
  masterKey: Uint8Array,
  password: string,
  hasher: PasswordHasher,
): Promise<VaultHeader> {
  assertWithinBounds(vault.kdf)
  const open = { ...vault, salt: randomBytes(saltBytes) }
  const passwordKey = await hasher.hash(password, open.salt, open.kdf)
  try {
    return { ...open, wrappedKey: seal(passwordKey, masterKey, associated(open)) }
  } finally {
    passwordKey.fill(0)
  }
}

/** The master key, or undefined for another password. The caller zeroes it. */
export async function unwrapMasterKey(
  header: VaultHeader,
  password: string,
  hasher: PasswordHasher,
): Promise<Buffer | undefined> {
  assertWithinBounds(header.kdf)
  const passwordKey = await hasher.hash(password, header.salt, header.kdf)
  try {
    return unseal(passwordKey, header.wrappedKey, associated(header))
  } finally {
    passwordKey.fill(0)
  }
}

/** `vault.json`. It has a checksum, so that a changed bit is called damage and not a wrong password. */
export function encodeHeader(header: VaultHeader): Buffer {
  const body = {
    format,
    version: formatVersion,
    vaultId: header.vaultId,
    createdAt: header.createdAt,
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
      vaultId: String(text.vaultId),
      createdAt: String(text.createdAt),
      kdf: { memoryKiB, passes, lanes },
      salt: Buffer.from(String(salt), 'hex'),
      wrappedKey: Buffer.from(String(text.wrappedKey), 'hex'),
    }
    if (text.version !== formatVersion) throw new Error(`version ${JSON.stringify(text.version)}`)
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

/** The parameters are part of what the tag covers: a header that asks for less work opens nothing. */
function associated(open: Omit<VaultHeader, 'wrappedKey'>): Buffer {
  const { vaultId, createdAt, kdf, salt } = open
  return lengthPrefixed(
    format,
    String(formatVersion),
    vaultId,
    createdAt,
    `argon2id m=${kdf.memoryKiB} t=${kdf.passes} p=${kdf.lanes}`,
    salt,
  )
}
