import { DatabaseSync } from 'node:sqlite'

/**
 * Whether a file can be read as a database that was made here: its list of migrations is there, and no page is broken, which takes some
 * seconds a gigabyte.
 *
 * @param path of a file that may be written
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
