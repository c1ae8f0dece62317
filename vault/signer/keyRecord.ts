import type { KeyFamily } from '../ports/keyring.ts'

/** Records that hold keys: the seed, earlier seeds, imported keys. The signing process alone opens and seals them. */
const ownId = /^(?:seed|seed-\d+|import:.+)$/
const ownPrefix = 'key/'

/** Whether a record, named by its collection and id, is one of keys. */
export const isKeyRecord = (scope: string): boolean =>
  scope.startsWith(ownPrefix) && ownId.test(scope.slice(ownPrefix.length))

/** The full name of a record of keys by its id. */
export const keyScope = (id: string): string => `${ownPrefix}${id}`

/** An imported key as a record holds it: a byte for the family, and the private bytes. */
export const encodeImported = (family: KeyFamily, privateKey: Uint8Array): Buffer =>
  Buffer.concat([Uint8Array.of(family === 'evm' ? 0 : 1), privateKey])

/** A view of what a record of an imported key holds. */
export const decodeImported = (
  record: Buffer,
): { readonly family: KeyFamily; readonly privateKey: Buffer } => ({
  family: record[0] === 0 ? 'evm' : 'solana',
  privateKey: record.subarray(1),
})
