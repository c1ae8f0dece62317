import { rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { isVaultError, VaultError } from '../errors/error.ts'
import {
  CHECKPOINT_AFTER_PAGES,
  createDatabase,
  openDatabase,
  removeOlderDatabases,
  storageError,
} from './databaseFile.ts'
import { fileMode, flushFolder } from './files.ts'
import { homeLost } from './homeLock.ts'

/** Maximum delay of a change that may wait for others, in ms. */
const MAX_WAIT_MS = 20
const IMAGE_CHUNK_BYTES = 512 * 1024
export interface DatabaseHooks {
  /** Called last in each transaction. It writes the sealed state, which covers the rest of the transaction. */
  readonly sealing?: () => void
  /** Called when all requested changes are on disk, before their promises are fulfilled. */
  readonly committed?: () => void
  /**
   * Called when none of the requested changes is on disk, before their promises are rejected. In-memory state has to be
   * reloaded.
   */
  readonly failed?: () => void
}

interface Waiting {
  readonly write: () => void
  readonly done: () => void
  readonly failed: (error: Error) => void
}

/**
 * The vault's one file, with records, budget journal and log. All changes of one turn of the event loop are one transaction and
 * one flush. Memory and disk agree after that.
 *
 * The home's lock decides which process owns the file, because SQLite's own locks do not work between two hosts. If a process
 * takes over a home that was not released, it continues in a copy. The other process may still have the old file open. When
 * that process closes it, SQLite writes to the file and removes its write-ahead log by name.
 */
export class VaultDatabase {
  readonly file: string
  readonly isOurs: () => boolean
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  readonly #hooks: DatabaseHooks[] = []
  #waiting: Waiting[] = []
  #isScheduled = false
  #timer: NodeJS.Timeout | undefined
  /** Set if the in-memory state could not be reloaded. Then nothing is written until the vault is opened again. */
  #failure: VaultError | undefined
  #isClosed = false
  #images = 0

  /** Creates the database of a new vault. @throws `STORAGE_UNAVAILABLE` */
  static create(home: string, isOurs: () => boolean): VaultDatabase {
    const { file, db } = createDatabase(home)
    return new VaultDatabase(file, db, isOurs)
  }

  /** @param wasReleased see {@link openDatabase} @throws `VAULT_CORRUPT`, `VAULT_IN_USE`, `STORAGE_UNAVAILABLE` */
  static open(home: string, isOurs: () => boolean, wasReleased: boolean): VaultDatabase {
    const { file, db } = openDatabase(home, isOurs, wasReleased)
    return new VaultDatabase(file, db, isOurs)
  }

  private constructor(file: string, db: DatabaseSync, isOurs: () => boolean) {
    this.file = file
    this.#db = db
    this.isOurs = isOurs
  }

  /** The file's name in messages. */
  get name(): string {
    return basename(this.file)
  }

  join(hooks: DatabaseHooks): void {
    this.#hooks.push(hooks)
  }

  prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const made = this.#db.prepare(sql)
    this.#statements.set(sql, made)
    return made
  }

  /** Runs a read and turns its failure into an error with a message. @throws `VAULT_CORRUPT`, `STORAGE_UNAVAILABLE` */
  read<T>(work: () => T): T {
    try {
      return work()
    } catch (cause) {
      throw storageError(this.file, cause)
    }
  }

  /**
   * Runs `write`. Fulfilled when its effect is on disk. All calls of one transaction are written in order, or none.
   * @param canWait true to write with the next change that cannot wait, with {@link VaultDatabase.flushSoon}, or after
   *   `MAX_WAIT_MS`
   * @throws `STORAGE_UNAVAILABLE`, `VAULT_IN_USE` as a rejection
   */
  change(write: () => void, canWait = false): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    if (this.#isClosed) return Promise.reject(new VaultError('VAULT_LOCKED'))
    return new Promise((done, failed) => {
      this.#waiting.push({ write, done, failed })
      if (canWait) this.#timer ??= setTimeout(() => this.flush(), MAX_WAIT_MS).unref()
      else this.flushSoon()
    })
  }

  /** Writes pending changes after this turn's other callbacks, so that concurrent requests are flushed together. */
  flushSoon(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => this.flush())
  }

  /** Writes pending changes at once. */
  flush(): void {
    this.#isScheduled = false
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = this.#waiting
    if (batch.length === 0) return
    this.#waiting = []
    try {
      this.prepare('BEGIN').run()
      for (const { write } of batch) write()
      for (const { sealing } of this.#hooks) sealing?.()
      this.prepare('COMMIT').run()
    } catch (cause) {
      return this.#fail(batch, cause)
    }
    // The lock is checked after the commit. If this process lost the home before that, the process that took it over may have
    // copied the file without this commit.
    if (!this.isOurs()) return this.#refuse(batch)
    for (const { committed } of this.#hooks) committed?.()
    for (const { done } of batch) done()
  }

  /** Copies the write-ahead log into the file and empties it, so that the log contains no deleted data. */
  checkpoint(): void {
    if (this.#images > 0 || !this.isOurs()) return
    this.read(() => this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)'))
  }

  /** Reads the file's current content. Changes that are made meanwhile stay in the write-ahead log. */
  async *image(): AsyncGenerator<Buffer> {
    this.flush()
    this.checkpoint()
    this.#images++
    this.#db.exec('PRAGMA wal_autocheckpoint = 0')
    const file = await open(this.file)
    try {
      const { size } = await file.stat()
      for (let at = 0; at < size; at += IMAGE_CHUNK_BYTES) {
        const chunk = Buffer.alloc(Math.min(IMAGE_CHUNK_BYTES, size - at))
        await file.read(chunk, 0, chunk.length, at)
        yield chunk
      }
    } finally {
      await file.close()
      this.#images--
      if (this.#images === 0 && !this.#isClosed) {
        this.#db.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_AFTER_PAGES}`)
        this.checkpoint()
      }
    }
  }

  /**
   * Removes databases with lower numbers. Call it only after the vault has opened. Before that, this file may not be the
   * newest, because another program may have put it there.
   */
  removeOlder(): void {
    removeOlderDatabases(this.file)
  }

  /** Writes pending changes and closes the file. */
  close(): void {
    if (this.#isClosed) return
    this.flush()
    this.#isClosed = true
    this.#db.close()
  }

  /** Rejects the changes, because another process owns the file now. */
  #refuse(batch: readonly Waiting[]): void {
    this.#rollBack()
    this.#failure = homeLost()
    for (const { failed } of batch) failed(this.#failure)
  }

  #fail(batch: readonly Waiting[], cause: unknown): void {
    this.#rollBack()
    let error = isVaultError(cause) ? cause : storageError(this.file, cause)
    try {
      for (const { failed } of this.#hooks) failed?.()
    } catch (reading) {
      error = this.#failure = new VaultError(
        'STORAGE_UNAVAILABLE',
        `Could not write to ${basename(this.file)} or read it again. The vault writes nothing to this file until the vault is opened again.`,
        { cause: reading },
      )
    }
    for (const { failed } of batch) failed(error as Error)
  }

  #rollBack(): void {
    // SQLite has already rolled back after some failures.
    if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
  }
}

/** Writes a backup's database into a home that has none. */
export async function writeDatabase(home: string, chunks: readonly Buffer[]): Promise<void> {
  const file = join(home, 'vault.1.db')
  const opened = await open(file, 'wx', fileMode)
  try {
    for (const chunk of chunks) await opened.writeFile(chunk)
    await opened.sync()
    // Another vault in this folder may have left its log. SQLite would apply it to this database.
    rmSync(`${file}-wal`, { force: true })
  } finally {
    await opened.close()
  }
  flushFolder(home)
}
