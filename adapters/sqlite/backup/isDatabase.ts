import { DatabaseSync } from 'node:sqlite'

/** Whether a file can be read as a database that was made here: its list of migrations is there. @param path of a file that may be written */
export function isDatabase(path: string): boolean {
  const database = new DatabaseSync(path)
  try {
    return database.prepare('SELECT 1 FROM kysely_migration').get() !== undefined
  } catch {
    return false
  } finally {
    database.close()
  }
}
