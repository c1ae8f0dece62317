import { execFileSync } from 'node:child_process'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { openSqlite } from '../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { runTollgate } from './helpers/child.ts'

const dir = mkdtempSync(join(tmpdir(), 'tollgate-restore-'))
t.teardown(() => rmSync(dir, { recursive: true, force: true }))

/** Runs a command to its end. */
const tollgate = (...args: readonly string[]) => runTollgate(t, args).exited

t.test(
  'a restore that can not be leaves the database as it was, with what is still in its log',
  async (t) => {
    const path = join(dir, 'kept.db')
    const kept = join(dir, 'kept.yaml')
    writeFileSync(kept, `publicUrl: http://127.0.0.1:8080\nstorage:\n  path: ${path}\n`)
    const made = await tollgate('store', 'create', 'kept', '--config', kept)
    t.equal(made.code, 0, made.stderr)
    const database = new DatabaseSync(path)
    database.exec("UPDATE stores SET display_name = 'in the log'")
    const folder = join(dir, 'folder')
    mkdirSync(folder)
    const text = join(dir, 'notes.txt')
    writeFileSync(text, 'no database at all')
    const empty = join(dir, 'empty.db')
    writeFileSync(empty, '')
    const other = join(dir, 'other.db')
    const stranger = new DatabaseSync(other)
    stranger.exec('CREATE TABLE t (a)')
    stranger.close()
    // A page that a disk or a copy has lost.
    const torn = join(dir, 'torn.db')
    t.equal((await tollgate('backup', torn, '--config', kept)).code, 0)
    const bytes = readFileSync(torn)
    writeFileSync(torn, bytes.fill(0, 20 * 4_096, 40 * 4_096))
    const files = () => readdirSync(dir).filter((name) => name.startsWith('kept.db'))
    const before = files()
    for (const wrong of [folder, text, empty, other, torn, path]) {
      const { code, stderr } = await tollgate('restore', wrong, '--config', kept, '--force')
      t.equal(code, 2, wrong)
      t.match(stderr, /Expected a backup/)
      t.strictSame(files(), before)
    }
    database.close()
    // Root restores what another user's gateway writes.
    if (process.getuid?.() === 0) {
      chownSync(path, 65_534, 65_534)
      const copy = join(dir, 'kept-copy.db')
      t.equal((await tollgate('backup', copy, '--config', kept)).code, 0)
      t.equal((await tollgate('restore', copy, '--config', kept, '--force')).code, 0)
      t.match(statSync(path), { uid: 65_534, gid: 65_534 })
    }
    t.equal(statSync(path).mode & 0o777, 0o600)
    const again = new DatabaseSync(path)
    t.match(again.prepare('SELECT display_name FROM stores').get(), { display_name: 'in the log' })
    again.close()
  },
)

/** Why files cannot be mounted here; false where they can. */
function noMounts(): string | false {
  const file = join(dir, 'mountable')
  writeFileSync(file, '')
  try {
    execFileSync('mount', ['--bind', file, file], { stdio: 'ignore' })
    execFileSync('umount', [file])
    return false
  } catch {
    return 'needs the right to mount a file'
  }
}

t.test(
  'a restore that the system refuses leaves the log of the database',
  { skip: noMounts() },
  async (t) => {
    const path = join(dir, 'mounted.db')
    const mounted = join(dir, 'mounted.yaml')
    writeFileSync(mounted, `publicUrl: http://127.0.0.1:8080\nstorage:\n  path: ${path}\n`)
    t.equal((await tollgate('store', 'create', 'kept', '--config', mounted)).code, 0)
    const copy = join(dir, 'mounted-copy.db')
    t.equal((await tollgate('backup', copy, '--config', mounted)).code, 0)
    const database = new DatabaseSync(path)
    database.exec("UPDATE stores SET display_name = 'in the log'")
    // As a single file that is mounted into a container: nothing takes its place.
    execFileSync('mount', ['--bind', path, path])
    try {
      const { code, stderr } = await tollgate('restore', copy, '--config', mounted, '--force')
      t.equal(code, 1)
      t.match(stderr, /EBUSY/)
    } finally {
      execFileSync('umount', [path])
    }
    t.ok(existsSync(`${path}-wal`))
    database.close()
    const again = new DatabaseSync(path)
    t.match(again.prepare('SELECT display_name FROM stores').get(), { display_name: 'in the log' })
    again.close()
  },
)

t.test('a database that a gateway works on is not replaced', async (t) => {
  const path = join(dir, 'worked-on.db')
  const busy = join(dir, 'worked-on.yaml')
  writeFileSync(busy, `publicUrl: http://127.0.0.1:8080\nstorage:\n  path: ${path}\n`)
  t.equal((await tollgate('store', 'create', 'kept', '--config', busy)).code, 0)
  const copy = join(dir, 'worked-on-copy.db')
  t.equal((await tollgate('backup', copy, '--config', busy)).code, 0)
  const gateway = await openSqlite({ path, clock: systemClock, log: silentLog })
  const lease = (await gateway.leases.take('process:gateway', 60_000))!
  const { code, stderr } = await tollgate('restore', copy, '--config', busy, '--force')
  t.equal(code, 2)
  t.match(stderr, /A gateway is using .*worked-on\.db.*Stop the gateway first/)
  t.strictSame(await gateway.health(), [])
  // One that stands still has no lease any more, and goes on selling when it wakes up.
  const past = new DatabaseSync(path)
  past.exec('UPDATE leases SET expires_at_ms = expires_at_ms - 61000')
  past.close()
  t.match(await tollgate('restore', copy, '--config', busy, '--force'), {
    code: 2,
    stderr: /Stop the gateway first/,
  })
  await gateway.leases.release(lease)
  await gateway.close()
  // A process that cannot see the lease does not treat it as free.
  const locking = new DatabaseSync(path)
  locking.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  t.match(await tollgate('restore', copy, '--config', busy, '--force'), {
    code: 1,
    stderr: /Cannot determine whether a gateway uses/,
  })
  locking.close()
  t.equal((await tollgate('restore', copy, '--config', busy, '--force')).code, 0)
})
