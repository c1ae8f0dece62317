import { closeSync, existsSync, linkSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname, extname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import { machineClock } from '../../../../core/ports/clock.ts'
import { CLOCK_BEHIND_MS } from '../../../../core/ports/store/leases.ts'
import { flush } from '../../../flush.ts'
import { hasEnded, isThere, pidOf } from '../../sql/processName.ts'
import { connectReader } from '../connect.ts'
import { isNoDatabase } from '../failure.ts'

/**
 * Writes a consistent copy of the database to `toFile`, on a separate thread and a few pages at a time, while processes use the
 * database. The copy gets its name only when it is complete and on disk. If the process is killed before, it leaves
 * `<toFile>.<pid>.unfinished`.
 *
 * @throws if `toFile` exists (a backup never replaces a file) or its folder does not exist
 */
export async function backupTo(path: string, toFile: string): Promise<void> {
  if (existsSync(toFile)) throw new Error(`Expected a new file for the backup, but ${toFile} exists.`)
  const folder = dirname(toFile)
  if (!existsSync(folder))
    throw new Error(`Expected a folder for the backup at ${folder}, found none. Create the folder first.`)
  const unfinished = `${toFile}.${process.pid}.unfinished`
  rmSync(unfinished, { force: true })
  // The empty file is created here with private modes, because SQLite would use the modes of the process's umask.
  closeSync(openSync(unfinished, 'wx', 0o600))
  try {
    await copy(path, unfinished)
    flush(unfinished)
    // A link is used, because a rename would replace a file that was created meanwhile.
    linkSync(unfinished, toFile)
  } finally {
    for (const file of [unfinished, `${unfinished}-journal`]) rmSync(file, { force: true })
  }
  flush(folder)
}

async function copy(path: string, toFile: string): Promise<void> {
  const program = new URL(`./backup.worker${extname(import.meta.url)}`, import.meta.url)
  const worker = new Worker(program, { workerData: { path, toFile }, execArgv: [] })
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject)
    worker.once('exit', (code) => {
      if (code === 0) resolve()
      else reject(new Error(`The thread that copies the database ended with ${code}.`))
    })
  })
}

/**
 * Whether a gateway uses a database file. A paused gateway counts, because it continues when it is resumed. A file that is broken
 * or no database counts as not in use.
 *
 * @throws when the function cannot find out, such as while the file is locked
 */
export function isWorkedOn(path: string): boolean {
  let database: DatabaseSync | undefined
  try {
    database = connectReader(path)
    return workerOf(database, machineClock.now()) !== undefined
  } catch (error) {
    if (isNoDatabase(error)) return false
    throw new Error(`Cannot determine whether a gateway uses ${path}: ${(error as Error).message}.`, {
      cause: error,
    })
  } finally {
    database?.close()
  }
}

/** A process that uses a database file. It may be paused. */
interface FileWorker {
  /** The process id. Undefined if the operating system does not tell. */
  readonly pid: number | undefined
  /**
   * Whether the process exists although its lease has expired. The process or its machine was paused, and the process continues
   * when it is resumed.
   */
  readonly standsStill: boolean
}

/**
 * The process that uses a database file, according to its leases. A process on another machine counts until its lease expires, even
 * if it was killed or paused.
 */
export function workerOf(database: DatabaseSync, nowMs: number): FileWorker | undefined {
  if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'leases'").get() === undefined)
    return undefined
  const leases = database
    .prepare(
      `SELECT holder, expires_at_ms > ?1 AND expires_at_ms - ttl_ms <= ?1 + ${CLOCK_BEHIND_MS} AS runs FROM leases`,
    )
    .all(nowMs)
    .map(({ holder, runs }) => ({ name: holder === null ? undefined : String(holder), runs: runs === 1 }))
  const worker =
    leases.find(({ name, runs }) => runs && (name === undefined || !hasEnded(name))) ??
    leases.find(({ name }) => name !== undefined && isThere(name))
  return (
    worker && { pid: worker.name === undefined ? undefined : pidOf(worker.name), standsStill: !worker.runs }
  )
}

/**
 * Whether a file can be read as a database of Tollgate. Its list of migrations must exist, and no page may be broken. The check
 * takes a few seconds per gigabyte.
 *
 * @param path of a file that the process may write
 */
export function isDatabase(path: string): boolean {
  const database = new DatabaseSync(path)
  try {
    if (database.prepare('SELECT 1 FROM kysely_migration').get() === undefined) return false
    database.exec('PRAGMA cache_size = -32000')
    return database.prepare('PRAGMA quick_check(1)').get()!['quick_check'] === 'ok'
  } catch {
    return false
  } finally {
    database.close()
  }
}

/**
 * Replaces a database that no process uses by a file, in one step. The path has a complete database at any time, even if the step
 * fails or the process is killed. First, the function copies the old write-ahead log into the old database, because the log must
 * not be applied to the new one.
 *
 * @param path of the database; it need not exist
 * @param by the new database, in the same folder and without a log; the function moves it
 */
export function replaceDatabase(path: string, by: string): void {
  flush(by)
  if (existsSync(path)) foldLogIn(path)
  const log = `${path}-wal`
  const aside = `${log}.${process.pid}.replaced`
  const hasLog = existsSync(log)
  if (hasLog) renameSync(log, aside)
  try {
    rmSync(`${path}-shm`, { force: true })
    renameSync(by, path)
  } catch (error) {
    if (hasLog) renameSync(aside, log)
    throw error
  }
  rmSync(aside, { force: true })
  flush(dirname(path))
}

/** Copies the log into the database. If the database is broken, which is a frequent reason for a restore, the log stays. */
function foldLogIn(path: string): void {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(path)
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } catch {
    // A broken database is replaced without the copy.
  } finally {
    database?.close()
  }
}
