import type { DatabaseSync } from 'node:sqlite'
import { machineClock } from '../../../core/ports/clock.ts'
import { connectReader } from '../connect.ts'
import { isNoDatabase } from '../failure.ts'
import { workerOf } from '../workerOf.ts'

/**
 * Whether a gateway works on a database file, or stands still and would go on. What is no database, or a broken one, is worked on by nobody.
 *
 * @throws where that can not be seen, such as while the file is locked
 */
export function isWorkedOn(path: string): boolean {
  let database: DatabaseSync | undefined
  try {
    database = connectReader(path)
    return workerOf(database, machineClock.now()) !== undefined
  } catch (error) {
    if (isNoDatabase(error)) return false
    throw new Error(`Whether a gateway works on ${path} can not be seen: ${(error as Error).message}.`, {
      cause: error,
    })
  } finally {
    database?.close()
  }
}
