import { existsSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { flush } from '../../flush.ts'

/**
 * Puts a file in the place of a database that nobody works on, in one step. What is there before, or there is when it fails or is
 * killed, is a whole database: its write-ahead log, which belongs to no other, is copied into it first.
 *
 * @param path of the database; there may be none
 * @param by a database without a log, in the same folder; it is gone afterwards
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

/** Of a database that is broken, which is what many a restore is for, the log stays where it is. */
function foldLogIn(path: string): void {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(path)
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } catch {
    // It is replaced as it is.
  } finally {
    database?.close()
  }
}
