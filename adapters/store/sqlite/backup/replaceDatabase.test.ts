import { copyFileSync, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { replaceDatabase } from './backup.ts'

/** A database whose latest row is only in its log, and a connection that has it open. */
function withLog(t: Test) {
  const dir = t.testdir({})
  const path = join(dir, 'tollgate.db')
  const open = new DatabaseSync(path)
  t.teardown(() => open.close())
  open.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE sales (n)')
  open.exec('PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO sales VALUES (1)')
  return { dir, path }
}

/** The database that replaces it. */
function another(dir: string): string {
  const by = join(dir, 'by.db')
  const database = new DatabaseSync(by)
  database.exec('CREATE TABLE sales (n); INSERT INTO sales VALUES (2)')
  database.close()
  return by
}

/** What the file contains without its log. */
function salesIn(dir: string, path: string): unknown[] {
  const alone = join(dir, 'alone.db')
  copyFileSync(path, alone)
  const database = new DatabaseSync(alone)
  const rows = database.prepare('SELECT n FROM sales').all()
  database.close()
  return rows.map(({ n }) => n)
}

t.test('whenever it ends in the middle, the database has what was in its log', async (t) => {
  const { dir, path } = withLog(t)
  t.strictSame(salesIn(dir, path), [], 'in the log only')
  const folder = join(dir, 'folder')
  mkdirSync(folder)
  // The last step fails, because a file cannot replace a folder.
  t.throws(() => replaceDatabase(path, folder), { code: 'ENOTDIR' })
  t.strictSame(salesIn(dir, path), [1])
})

t.test('the log goes with the database that it belongs to', async (t) => {
  const { dir, path } = withLog(t)
  const by = another(dir)
  replaceDatabase(path, by)
  t.notOk(existsSync(`${path}-wal`))
  t.strictSame(salesIn(dir, path), [2])
})

t.test('there may be none yet', async (t) => {
  const dir = t.testdir({})
  const by = another(dir)
  replaceDatabase(join(dir, 'tollgate.db'), by)
  t.strictSame(salesIn(dir, join(dir, 'tollgate.db')), [2])
})

t.test('one that is broken is replaced, too', async (t) => {
  const dir = t.testdir({ 'tollgate.db': 'no database', 'tollgate.db-wal': 'no log' })
  const by = another(dir)
  replaceDatabase(join(dir, 'tollgate.db'), by)
  t.strictSame(salesIn(dir, join(dir, 'tollgate.db')), [2])
})
