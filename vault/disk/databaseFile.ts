import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { VaultError } from '../errors/error.ts'
import { fileMode, flushFolder, newerVersion, unwritable, writeAll } from './files.ts'
import { homeLost } from './homeLock.ts'

const form = /^vault\.(\d{1,9})\.db$/
const unfinishedForm = /^\.vault\.[0-9a-f]{12}\.unfinished(-wal)?$/
/** Number of bytes of a database that are copied and flushed between two checks of the home's lock. */
const COPY_CHUNK_BYTES = 4 * 1024 * 1024
const SCHEMA_VERSION = 1
const schema = `
  CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), lineage TEXT NOT NULL, sealed BLOB NOT NULL) STRICT;
  CREATE TABLE records (id INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT;
  CREATE TABLE budget (id INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT;
  CREATE TABLE log (
    seq INTEGER PRIMARY KEY,
    prev BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL,
    hash BLOB NOT NULL,
    mac BLOB NOT NULL
  ) STRICT;
  PRAGMA user_version = ${SCHEMA_VERSION};
`
/** Number of pages (4 MiB) after which the write-ahead log is copied into the database. */
export const CHECKPOINT_AFTER_PAGES = 1_000
/** Result codes of SQLite (sqlite.org/rescode.html) that mean damage. */
const damageCodes: ReadonlySet<number> = new Set([11, 26])

export const databaseFileIn = (home: string): string | undefined => filesIn(home).at(-1)

/** Creates the database of a new vault. @throws `STORAGE_UNAVAILABLE` */
export function createDatabase(home: string): { readonly file: string; readonly db: DatabaseSync } {
  const file = join(home, 'vault.1.db')
  closeSync(openSync(file, 'wx', fileMode))
  const db = connect(file)
  try {
    db.exec(schema)
  } catch (cause) {
    db.close()
    throw storageError(file, cause)
  }
  flushFolder(home)
  return { file, db }
}

/**
 * Opens the database of a home. If another process may still have the file open, it opens a copy.
 * @param wasReleased whether the previous process released the home
 * @throws `VAULT_CORRUPT`, `VAULT_IN_USE`, `VALIDATION_ERROR`, `STORAGE_UNAVAILABLE`
 */
export function openDatabase(
  home: string,
  isOurs: () => boolean,
  wasReleased: boolean,
): { readonly file: string; readonly db: DatabaseSync } {
  let file = databaseFileIn(home)
  if (file === undefined)
    throw new VaultError(
      'VAULT_CORRUPT',
      'The database of the vault, vault.1.db, is missing. Restore the newest backup.',
    )
  // SQLite would put the write-ahead log beside the link's target. A process that takes the home over would not find it there.
  if (lstatSync(file).isSymbolicLink())
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected ${basename(file)} in ${home} to be a file, got a symbolic link. Replace the link with the file. To keep the vault on another disk, move or link its whole folder.`,
    )
  // The writes of a killed process may not be flushed yet. The home's other files must not refer to writes that a power cut can
  // undo.
  if (!wasReleased || existsSync(`${file}-wal`)) file = copyOf(home, file, isOurs)
  const db = connect(file)
  try {
    const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number }
    if (version > SCHEMA_VERSION) throw newerVersion(basename(file), SCHEMA_VERSION, version)
    if (version < SCHEMA_VERSION || schemaOf(db) !== expectedSchema())
      throw damaged(file, 'it was not written by this program')
    return { file, db }
  } catch (cause) {
    db.close()
    throw storageError(file, cause)
  }
}

function connect(file: string): DatabaseSync {
  const url = pathToFileURL(file)
  url.searchParams.set('vfs', process.platform === 'win32' ? 'win32-none' : 'unix-none')
  // If another process has removed the file, it must not be recreated as an empty database.
  url.searchParams.set('mode', 'rw')
  const db = new DatabaseSync(url)
  try {
    // Exclusive mode is set first. Without SQLite's locks, there can be no shared index of the write-ahead log either.
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    db.exec(`PRAGMA secure_delete = ON; PRAGMA wal_autocheckpoint = ${CHECKPOINT_AFTER_PAGES}`)
    db.exec('PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF')
    return db
  } catch (cause) {
    db.close()
    throw storageError(file, cause)
  }
}

/** The SQL that creates the tables. It shows whether something was added, such as a trigger. */
const schemaOf = (db: DatabaseSync): string =>
  JSON.stringify(db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all())

function expectedSchema(): string {
  const db = new DatabaseSync(':memory:')
  db.exec(schema)
  const expected = schemaOf(db)
  db.close()
  return expected
}

/**
 * Copies the database with everything that the previous process had written. This process may be suspended during the copy and
 * find that it has lost the home. Its copy therefore has a temporary name until it is complete, and never gets the name of
 * another copy.
 */
function copyOf(home: string, from: string, isOurs: () => boolean): string {
  for (const name of readdirSync(home))
    if (unfinishedForm.test(name)) rmSync(join(home, name), { force: true })
  const number = Number(form.exec(basename(from))![1]) + 1
  const copy = join(home, `vault.${number}.db`)
  const unfinished = join(home, `.vault.${randomBytes(6).toString('hex')}.unfinished`)
  const walName = `${from}-wal`
  // The log is opened first, because the other process may copy it into the database and then remove it by name.
  const wal = existsSync(walName) ? openSync(walName, 'r') : undefined
  const database = openSync(from, 'r')
  try {
    const changedAt = (): string =>
      `${statSync(from).mtimeMs} ${wal === undefined ? '' : fstatSync(wal).mtimeMs}`
    for (let before = ''; before !== changedAt(); ) {
      before = changedAt()
      writeCopy(database, unfinished, isOurs)
      if (wal !== undefined) writeCopy(wal, `${unfinished}-wal`, isOurs)
    }
    takeInLog(unfinished)
    const opened = openSync(unfinished, 'r+')
    fsyncSync(opened)
    closeSync(opened)
    if (!isOurs()) throw homeLost()
    linkSync(unfinished, copy)
    // A removed database of this name may have left its log. SQLite would apply it to this copy.
    rmSync(`${copy}-wal`, { force: true })
    flushFolder(home)
  } catch (cause) {
    throw unwritable(home, cause)
  } finally {
    for (const descriptor of [database, wal]) if (descriptor !== undefined) closeSync(descriptor)
    removeDatabase(unfinished)
  }
  removeDatabase(from)
  return copy
}

/**
 * Copies the write-ahead log into the database. The result is checked, because on a full disk SQLite closes without an error
 * and leaves the log behind.
 */
function takeInLog(file: string): void {
  const db = connect(file)
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } catch (cause) {
    throw storageError(file, cause)
  } finally {
    db.close()
  }
}

/**
 * Writes the copy in parts and flushes each part. A full database takes longer than the home's lock allows a process to pause.
 */
function writeCopy(from: number, to: string, isOurs: () => boolean): void {
  const opened = openSync(to, 'w', fileMode)
  try {
    const chunk = Buffer.alloc(COPY_CHUNK_BYTES)
    for (let at = 0, read = -1; read !== 0; at += read) {
      if (!isOurs()) throw homeLost()
      read = readSync(from, chunk, 0, chunk.length, at)
      writeAll(opened, chunk.subarray(0, read))
      fsyncSync(opened)
    }
  } finally {
    closeSync(opened)
  }
}

/** Removes copies that an interrupted takeover left behind. */
export function removeOlderDatabases(file: string): void {
  const numberOf = (of: string) => Number(form.exec(basename(of))![1])
  for (const other of filesIn(dirname(file))) if (numberOf(other) < numberOf(file)) removeDatabase(other)
}

function removeDatabase(file: string): void {
  rmSync(`${file}-wal`, { force: true })
  rmSync(file, { force: true })
}

/** The databases in the home, oldest first. */
function filesIn(home: string): string[] {
  return readdirSync(home)
    .flatMap((name) => {
      const found = form.exec(name)
      return found === null ? [] : [{ file: join(home, name), number: Number(found[1]) }]
    })
    .sort((a, b) => a.number - b.number)
    .map(({ file }) => file)
}

export function damaged(file: string, what: string, cause?: unknown): VaultError {
  return new VaultError(
    'VAULT_CORRUPT',
    `${basename(file)} of the vault is damaged: ${what}. Restore the newest backup.`,
    { cause },
  )
}

/** Turns an SQLite failure into an error with a message. Every other error stays unchanged. */
export function storageError(file: string, cause: unknown): unknown {
  const { errcode, code } = cause as { errcode?: number; code?: string }
  // The database contains a number that no row of the vault has.
  if (code === 'ERR_OUT_OF_RANGE') return damaged(file, 'it cannot be read', cause)
  if (errcode === undefined) return cause
  if (damageCodes.has(errcode & 0xff)) return damaged(file, 'it cannot be read', cause)
  return new VaultError(
    'STORAGE_UNAVAILABLE',
    `Could not write to ${basename(file)}. The request was not performed. Check that the disk has free space, then send it again.`,
    { cause },
  )
}
