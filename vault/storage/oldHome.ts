import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import type { AuditMark } from '../ports/audit.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { HostKeys } from '../signer/hostKeys.ts'
import { isKeyRecord } from '../signer/keyRecord.ts'
import type { Proof } from '../signer/protocol.ts'
import type { SigningProcess } from '../signer/signingProcess.ts'
import { deriveKey } from './disk/aead.ts'
import { replaceFile } from './disk/files.ts'
import { readFrame } from './disk/frame.ts'
import type { SealedLogPlace } from './disk/sealedLog.ts'
import { budgetPlace, recordsPlace, type VaultFiles } from './disk/vaultFiles.ts'
import { associatedOf, encodeHeader, newestVersion, type VaultHeader } from './password/header.ts'
import { wrappedBytes } from './records/envelope.ts'
import { decodeChange, encodePut } from './records/recordChange.ts'
import { RecordStore } from './records/recordStore.ts'

/** Magic and salt, with which each log of a vault of version 1 begins. */
const saltAt = 8
const framesAt = 24

export interface UpgradeOptions {
  readonly files: VaultFiles
  readonly header: VaultHeader
  readonly clock: VaultClock
  /** Holds the master key. */
  readonly signer: SigningProcess
  readonly keys: HostKeys
  readonly proof: Proof
  /** The last entry of its log. */
  readonly lastLogged: AuditMark
}

/** The record that keeps the last entry of the time when the vault was one of version 1: its log is judged by what that one did. */
export const firstVersionLogId = 'log-of-version-1'

/**
 * Brings a vault of version 1 to the newest: its records and its budgets under the host's keys, records of keys as they
 * are. Each file is replaced whole and `vault.json` last, so that after a crash in between the next unlock goes on.
 *
 * @returns the header that was written
 * @throws `VAULT_CORRUPT` naming the file
 */
export async function upgradeHome(options: UpgradeOptions): Promise<VaultHeader> {
  const { files, header, clock, signer, keys, proof, lastLogged } = options
  const places = {
    records: recordsPlace(files, header.vaultId, keys.recordsFile),
    budget: budgetPlace(files, header.vaultId, keys.budgetFile),
  }
  const records = await readOldLog(places.records, 'records', signer)
  if (records !== undefined) {
    const store = new RecordStore(clock, () => {})
    store.create(places.records, keys.records, await adoptChanges(records, signer))
    await store.note(firstVersionLogId, lastLogged)
    await store.close()
  }
  const budget = await readOldLog(places.budget, 'budget', signer)
  if (budget !== undefined) {
    const book = new JournaledBudget(clock, () => {})
    book.create(places.budget, budget)
    await book.close()
  }
  const upgraded = await upgradedHeader(header, signer, proof)
  replaceFile(files.header, encodeHeader(upgraded))
  return upgraded
}

/** The same header in the newest version, for the same password. */
export async function upgradedHeader(
  header: VaultHeader,
  signer: SigningProcess,
  proof: Proof,
): Promise<VaultHeader> {
  const open = { ...header, version: newestVersion }
  return { ...open, wrappedKey: await signer.wrap(proof, proof.passwordKey, associatedOf(open)) }
}

/** Changes of records as version 1 kept them, with the host's records under the host's key. */
export async function adoptChanges(changes: readonly Buffer[], signer: SigningProcess): Promise<Buffer[]> {
  const read = changes.map((change) => ({ change, ...decodeChange(change) }))
  const own = read.filter(({ scope, record }) => record !== undefined && !isKeyRecord(scope))
  const adopted = await signer.adopt(
    own.map(({ scope, record }) => ({
      scope,
      version: record!.version,
      wrapped: record!.sealed.subarray(0, wrappedBytes),
    })),
  )
  const wrappedOf = new Map(own.map(({ change }, i) => [change, adopted[i]!]))
  return read.map(({ change, scope, record }) => {
    const wrapped = wrappedOf.get(change)
    if (wrapped === undefined) return change
    return encodePut(scope, {
      ...record!,
      sealed: Buffer.concat([wrapped, record!.sealed.subarray(wrappedBytes)]),
    })
  })
}

/** What a log of version 1 holds, in order; undefined when it is under the host's key already. */
async function readOldLog(
  place: SealedLogPlace,
  use: 'records' | 'budget',
  signer: SigningProcess,
): Promise<Buffer[] | undefined> {
  const bytes = readFileSync(place.file)
  const salt = bytes.subarray(saltAt, framesAt)
  const newKey = deriveKey(place.masterKey, place.use, place.vaultId, salt)
  const isNew = readFrame(newKey, 0, bytes, framesAt).kind === 'frame'
  newKey.fill(0)
  if (isNew) return undefined
  const key = await signer.fileKey(use, salt)
  try {
    const payloads: Buffer[] = []
    let snapshotFrames = 0
    for (let index = 0, at = framesAt; at < bytes.length || index <= snapshotFrames; index++) {
      const read = readFrame(key, index, bytes, at)
      // A torn end is what a crash left of a write that nobody was told about; it is none inside the snapshot.
      if (read.kind === 'torn' && index > snapshotFrames) break
      if (read.kind !== 'frame') throw corrupt(place.file)
      if (index === 0) snapshotFrames = read.payload.readUInt32BE()
      else payloads.push(read.payload)
      at = read.next
    }
    return payloads
  } finally {
    key.fill(0)
  }
}

const corrupt = (file: string): VaultError =>
  new VaultError('VAULT_CORRUPT', `${basename(file)} of the vault is damaged. Restore the newest backup.`)
