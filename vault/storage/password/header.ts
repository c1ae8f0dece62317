import { createHash, randomBytes } from 'node:crypto'
import { lengthPrefixed } from '../../disk/aead.ts'
import { newerVersion } from '../../disk/files.ts'
import { VaultError } from '../../errors/error.ts'
import type { Proof } from '../../signer/protocol.ts'
import { assertWithinBounds, type KdfParameters, type PasswordHasher, saltBytes } from './kdf.ts'

/** Version of `vault.json` and of how its keys seal the other files. The vault accepts only this version. */
const headerVersion = 2

/** The values that a header records about the database beside it. */
export interface HeaderPlace {
  /** Random id of the database since its creation. A restored vault has another lineage. */
  readonly lineage: string
  /** The database's change counter at the last password change. */
  readonly counter: number
  /** Number of password changes. */
  readonly passwords: number
}

/**
 * The plaintext content of `vault.json`. It states how to derive the password key, and has the master key wrapped with that
 * key.
 */
export interface VaultHeader {
  readonly vaultId: string
  /** Time in ISO 8601. */
  readonly createdAt: string
  readonly kdf: KdfParameters
  readonly place: HeaderPlace
  /** 16 random bytes. Each password has new ones. */
  readonly salt: Buffer
  readonly wrappedKey: Buffer
}

const format = 'tollgate-vault'
const LINEAGE_BYTES = 8

/** The values for a new database. */
export const newSlot = (): HeaderPlace => ({
  lineage: randomBytes(LINEAGE_BYTES).toString('hex'),
  counter: 0,
  passwords: 0,
})

/** A header without its wrapped key. */
export type OpenHeader = Omit<VaultHeader, 'wrappedKey'>

/** A header for a new password, with a new salt. */
export const headerFor = (vault: Omit<OpenHeader, 'salt'>): OpenHeader => ({
  place: vault.place,
  vaultId: vault.vaultId,
  createdAt: vault.createdAt,
  kdf: vault.kdf,
  salt: randomBytes(saltBytes),
})

/** The proof of a password for a header. The caller still owns the key. */
export const proofOf = (header: VaultHeader, passwordKey: Uint8Array): Proof => ({
  vaultId: header.vaultId,
  wrappedKey: header.wrappedKey,
  associated: associatedOf(header),
  passwordKey,
})

/** Derives from a password the 32 bytes that wrap the master key. The caller zeroes them. */
export function passwordKeyOf(header: OpenHeader, password: string, hasher: PasswordHasher): Promise<Buffer> {
  assertWithinBounds(header.kdf)
  return hasher.hash(password, header.salt, header.kdf)
}

/** Encodes `vault.json`. With its checksum, a changed bit can be distinguished from a wrong password. */
export function encodeHeader(header: VaultHeader): Buffer {
  const body = {
    format,
    version: headerVersion,
    vaultId: header.vaultId,
    createdAt: header.createdAt,
    place: placeText(header.place),
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

const placeText = ({ lineage, counter, passwords }: HeaderPlace): string =>
  `${lineage} ${counter} ${passwords}`

function readPlace(text: unknown): HeaderPlace {
  const [lineage = '', counter, passwords] = String(text).split(' ')
  return { lineage, counter: Number(counter), passwords: Number(passwords) }
}

const checksumOf = (body: object): string => createHash('sha256').update(JSON.stringify(body)).digest('hex')

/**
 * @throws `VAULT_CORRUPT` unless these are exactly the bytes that {@link encodeHeader} writes. The error names another version
 *   if the header is intact, because every version has `version`, and a checksum over what precedes it
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
      place: readPlace(text.place),
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
      'vault.json is damaged, or its password parameters are weaker than allowed. Restore the newest backup.',
      { cause },
    )
  }
}

function otherVersion(version: unknown): VaultError {
  if (typeof version === 'number' && version > headerVersion)
    return newerVersion('vault.json', headerVersion, version)
  const action =
    'Create a new vault in another folder: tollgate vault init; --mnemonic-file imports the recovery words.'
  return new VaultError(
    'VAULT_CORRUPT',
    `Expected version ${headerVersion} of vault.json, got version ${JSON.stringify(version)}, which this version of Tollgate does not open. ${action}`,
    { action },
  )
}

/**
 * The data that is authenticated with the wrapped master key. It includes the parameters, so nothing opens with a header whose
 * parameters were made cheaper.
 */
export function associatedOf({ vaultId, createdAt, place, kdf, salt }: OpenHeader): Buffer {
  return lengthPrefixed(
    format,
    String(headerVersion),
    vaultId,
    createdAt,
    `argon2id m=${kdf.memoryKiB} t=${kdf.passes} p=${kdf.lanes}`,
    salt,
    placeText(place),
  )
}
