import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { AuditLimits } from '../../../vault/audit/auditEntry.ts'
import { databaseFileIn } from '../../../vault/disk/databaseFile.ts'
import { vaultFiles } from '../../../vault/disk/files.ts'
import { VaultDatabase } from '../../../vault/disk/vaultDatabase.ts'
import type { VaultClock } from '../../../vault/ports/clock.ts'
import type { HostKeys } from '../../../vault/signer/protocol.ts'
import { Journals } from '../../../vault/storage/journals.ts'
import type { VaultHeader } from '../../../vault/storage/password/header.ts'
import { ManualClock } from './manualClock.ts'

export interface OpenJournalsOptions {
  readonly clock?: VaultClock
  readonly limits?: AuditLimits
  /** Of a vault with other keys. */
  readonly keyByte?: number
  readonly isLocked?: boolean
  /** False as after a kill. */
  readonly wasReleased?: boolean
}

export interface OpenJournals extends Journals {
  unlock(): void
  /** Locks and closes. */
  end(): Promise<void>
}

const header = { vaultId: 'vlt_1', place: { lineage: 'one', counter: 0, passwords: 0 } } as VaultHeader

/** What a vault in this folder writes down, under keys of the test's: without a password and a signing process. */
export function openJournals(home: string, options: OpenJournalsOptions = {}): OpenJournals {
  const { clock = new ManualClock(), limits, keyByte = 4, isLocked = false, wasReleased = true } = options
  const isNew = databaseFileIn(home) === undefined
  const open = isNew ? VaultDatabase.create : VaultDatabase.open
  const database = open(home, () => existsSync(home), wasReleased)
  const keys = (): HostKeys => ({
    records: Buffer.alloc(32, keyByte),
    rows: Buffer.alloc(32, keyByte + 1),
    audit: Buffer.alloc(32, keyByte + 2),
  })
  let journals: Journals
  const unlock = () => {
    if (isNew) journals.create(header.vaultId, header.place.lineage, keys())
    else journals.open(header, keys())
  }
  try {
    journals = new Journals({ files: vaultFiles(home), database, clock, limits, isNew })
    if (!isLocked) unlock()
  } catch (error) {
    database.close()
    throw error
  }
  const end = async () => {
    await journals.lock()
    journals.close()
  }
  return Object.assign(journals, { unlock, end })
}

/** Changes the database of a closed vault by hand. */
export function editDatabase<T>(home: string, edit: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(databaseFileIn(home)!)
  db.exec('PRAGMA synchronous = OFF')
  try {
    return edit(db)
  } finally {
    db.close()
  }
}

/** One row of the log as it is stored. */
export type LogRow = Record<'seq' | 'bytes', number> & Record<'prev' | 'body' | 'hash' | 'mac', Uint8Array>

export const logRowsOf = (home: string): LogRow[] =>
  editDatabase(home, (db) => db.prepare('SELECT * FROM log ORDER BY seq').all()) as unknown as LogRow[]

/** Puts these rows in the place of the whole log. */
export function writeLogRows(home: string, rows: readonly LogRow[]): void {
  editDatabase(home, (db) => {
    db.exec('BEGIN; DELETE FROM log')
    const insert = db.prepare('INSERT INTO log (seq, prev, bytes, body, hash, mac) VALUES (?, ?, ?, ?, ?, ?)')
    for (const { seq, prev, bytes, body, hash, mac } of rows) insert.run(seq, prev, bytes, body, hash, mac)
    db.exec('COMMIT')
  })
}
