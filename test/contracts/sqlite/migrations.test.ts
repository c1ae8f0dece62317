import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { statements } from '../../../adapters/store/sqlite/migrate.ts'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { mountSmallDisk } from '../../helpers/servers/mountSmallDisk.ts'

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url))

async function open(t: Test, path: string) {
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  return store
}

// When this fails: before the first release, set the pin to the new hash. After it, put the migration back as it was and add another
// one beside it, since databases that applied the released one don't apply it again.
t.test('a released migration is frozen', async (t) => {
  const hashes = Object.entries(statements).map(([name, list]) => [name, hash('sha256', list.join(';\n'))])
  t.strictSame(Object.fromEntries(hashes), {
    '0001-schema': 'f3c943cc7d50de6cc9bae8056aa2a04ee23a5141ac0c9a575bce404c734c2a5f',
  })
})

t.test('of several processes that start at once, one migrates', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const start = async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [fixture('migrate.ts'), path])
    return Number(stdout)
  }
  const applied = await Promise.all([start(), start(), start(), start()])
  t.strictSame(applied.sort(), [0, 0, 0, Object.keys(statements).length])
})

t.test('a process that is killed in the middle leaves nothing, and the next one migrates', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  for (const words of ['CREATE TABLE stores', 'CREATE TABLE payments', 'CREATE TRIGGER changes_pruned']) {
    const killed = spawnSync(process.execPath, [fixture('dyingMigration.ts'), path, words], {
      stdio: 'inherit',
    })
    t.equal(killed.signal, 'SIGKILL')
    const left = new DatabaseSync(path)
    t.strictSame(left.prepare('SELECT name FROM sqlite_schema').all(), [])
    left.close()
  }
  const { stores } = await open(t, path)
  t.equal(await stores.find('none'), undefined)
})

t.test('a disk that is full during the migration leaves nothing, and it goes on with room', async (t) => {
  const disk = mountSmallDisk(t, '4m')
  if (disk === undefined) return
  const path = join(disk, 'tollgate.db')
  const ballast = join(disk, 'ballast')
  const { bavail, bsize } = statfsSync(disk)
  writeFileSync(ballast, Buffer.alloc(bavail * bsize - 200_000))
  await t.rejects(open(t, path), { message: /the disk is full\. The database is unchanged\. Free as much/ })
  rmSync(ballast)
  const { stores } = await open(t, path)
  t.equal(await stores.find('none'), undefined)
})

t.test('a database that cannot be written and has to be migrated is named', async (t) => {
  const disk = mountSmallDisk(t, '4m')
  if (disk === undefined) return
  const path = join(disk, 'tollgate.db')
  const empty = new DatabaseSync(path)
  empty.exec('PRAGMA journal_mode = WAL; CREATE TABLE other (id INTEGER)')
  empty.close()
  execFileSync('mount', ['-o', 'remount,ro', disk])
  await t.rejects(open(t, path), { code: 'store_unavailable', message: new RegExp(path) })
})
