import { DatabaseSync } from 'node:sqlite'
import { machineClock } from '../../../core/ports/clock.ts'
import { isInUse } from '../isInUse.ts'

/** Whether a gateway works on a database file. One that can not be read is worked on by nobody. */
export function isWorkedOn(path: string): boolean {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(path, { readOnly: true })
    return isInUse(database, machineClock.now())
  } catch {
    return false
  } finally {
    database?.close()
  }
}
