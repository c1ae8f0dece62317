import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { mountSmallDisk } from '../../test/helpers/servers/mountSmallDisk.ts'
import { type OpenJournals, openJournals } from '../../test/helpers/vault/journals.ts'
import { takeHome } from './homeLock.ts'
import { VaultDatabase, writeDatabase } from './vaultDatabase.ts'

function folderFor(t: { teardown(work: () => unknown): unknown }): string {
  const folder = mkdtempSync(join(tmpdir(), 'vault-takeover-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const databasesIn = (home: string): string[] => readdirSync(home).filter((name) => name.endsWith('.db'))

/** Folders as a killed process leaves them: with its last writes in the write-ahead log. */
async function killedHomes(t: { teardown(work: () => unknown): unknown }) {
  const folder = folderFor(t)
  const running = join(folder, 'running')
  mkdirSync(running)
  const { store, end } = openJournals(running)
  await store.put('value', 'custom.a', 'before')
  const killed = join(folder, 'killed')
  cpSync(running, killed, { recursive: true })
  await end()
  const home = (name: string): string => {
    const copy = join(folder, name)
    cpSync(killed, copy, { recursive: true })
    return copy
  }
  return { folder, killed, home }
}

const valueIn = async (home: string): Promise<string | undefined> => {
  const { store, end } = openJournals(home)
  const value = store.getText('value', 'custom.a')
  await end()
  return value
}

t.test(
  'a process that loses the home while it copies the database takes nothing from the next one',
  async (t) => {
    const killed = await killedHomes(t)
    let polls = 0
    for (let lostAt = 1; ; lostAt++) {
      const home = killed.home(`lost-${lostAt}`)
      let next: OpenJournals | undefined
      polls = 0
      const isOurs = (): boolean => {
        if (++polls === lostAt) next = openJournals(home, { wasReleased: false })
        return polls < lostAt
      }
      try {
        VaultDatabase.open(home, isOurs, false).close()
        break
      } catch (error) {
        t.match(error, { code: 'VAULT_IN_USE' }, `lost at look ${lostAt}`)
      }
      await next!.store.put('value', 'custom.a', 'after')
      await next!.end()
      t.equal(await valueIn(home), 'after')
      t.equal(databasesIn(home).length, 1)
    }
    t.ok(polls > 3, `${polls} looks`)
  },
)

t.test('nor does it remove what it has copied, before the next one has read it', async (t) => {
  const killed = await killedHomes(t)
  const home = killed.home('home')
  for (let lostAt = 1; lostAt < 4; lostAt++) {
    let polls = 0
    t.throws(() => VaultDatabase.open(home, () => ++polls < lostAt, false), { code: 'VAULT_IN_USE' })
    t.strictSame(readdirSync(home).toSorted(), readdirSync(killed.killed).toSorted())
  }
  t.equal(await valueIn(home), 'before')
})

t.test('a file with a higher number that is not this vault’s removes nothing of it', async (t) => {
  const { folder, home: make } = await killedHomes(t)
  const home = make('home')
  t.equal(await valueIn(home), 'before')
  const [name] = databasesIn(home)
  const older = join(folder, 'older.db')
  cpSync(join(home, name!), older)
  const { store, end } = openJournals(home)
  await store.put('value', 'custom.a', 'after')
  await end()
  const planted = join(home, 'vault.7.db')
  writeFileSync(planted, '')
  t.throws(() => openJournals(home), { code: 'VAULT_CORRUPT' })
  cpSync(older, planted)
  t.throws(() => openJournals(home), { code: 'VAULT_CORRUPT' })
  t.strictSame(databasesIn(home), [name, 'vault.7.db'].toSorted())
  rmSync(planted)
  t.equal(await valueIn(home), 'after')
})

t.test('a write-ahead log without its database is not taken for the one of a new file', async (t) => {
  const { killed, home: make } = await killedHomes(t)
  const home = make('home')
  const wal = join(killed, 'vault.1.db-wal')
  cpSync(wal, join(home, 'vault.2.db-wal'))
  const { store, end } = openJournals(home)
  t.equal(store.getText('value', 'custom.a'), 'before')
  await store.put('value', 'custom.a', 'after')
  await end()
  cpSync(wal, join(home, 'vault.3.db-wal'))
  const again = openJournals(home, { wasReleased: false })
  t.equal(again.store.getText('value', 'custom.a'), 'after')
  await again.end()

  const restored = make('restored')
  for (const name of readdirSync(restored)) if (name !== 'vault.1.db-wal') rmSync(join(restored, name))
  await writeDatabase(restored, [readFileSync(join(home, databasesIn(home)[0]!))])
  const { store: values, end: close } = openJournals(restored)
  t.equal(values.getText('value', 'custom.a'), 'after')
  await close()
})

t.test('a takeover on a full disk keeps what was there, whatever there is no room for', async (t) => {
  const disk = mountSmallDisk(t, '16m')
  if (disk === undefined) return
  const folder = folderFor(t)
  const { store, end } = openJournals(folder)
  for (let n = 0; n < 12; n++) await store.put('value', `custom.n${n}`, 'x'.repeat(200_000))
  await store.put('value', 'custom.a', 'last')
  const killed = join(disk, 'killed')
  cpSync(folder, killed, { recursive: true })
  await end()
  const walBytes = statSync(join(killed, 'vault.1.db-wal')).size
  t.ok(walBytes > 1 << 20, `${walBytes} bytes are in the write-ahead log`)
  const home = join(disk, 'home')
  const filler = join(disk, 'filler')
  let refused = 0
  // From no space for the copy to space for the copy, but not for what its write-ahead log adds.
  for (let room = 0; room <= 2 * walBytes; room += 256 * 1024) {
    cpSync(killed, home, { recursive: true })
    const { bavail, bsize } = statfsSync(disk)
    writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - room)))
    const database = (() => {
      try {
        return VaultDatabase.open(home, () => true, false)
      } catch (error) {
        t.match(error, { code: 'STORAGE_UNAVAILABLE' }, `${room} bytes of room`)
        refused++
        return undefined
      }
    })()
    database?.close()
    rmSync(filler)
    const { store, end } = openJournals(home)
    t.equal(store.getText('value', 'custom.a'), 'last', `${room} bytes of room`)
    await end()
    rmSync(home, { recursive: true })
  }
  t.ok(refused > 4, `${refused} refused`)
})

t.test('a link in the place of the database is refused, and both ends of it stay as they are', async (t) => {
  const { folder, home: make } = await killedHomes(t)
  const home = make('home')
  const elsewhere = join(folder, 'elsewhere.db')
  renameSync(join(home, 'vault.1.db'), elsewhere)
  symlinkSync(elsewhere, join(home, 'vault.1.db'))
  const before = readdirSync(home)
  for (const wasReleased of [true, false])
    t.throws(() => openJournals(home, { wasReleased }), {
      code: 'VALIDATION_ERROR',
      message: /symbolic link/,
    })
  t.strictSame(readdirSync(home), before)
  renameSync(elsewhere, join(home, 'vault.1.db'))
  t.equal(await valueIn(home), 'before')
})

t.test('what a takeover left that ended in the middle is removed once the vault is open', async (t) => {
  const { killed, home: make } = await killedHomes(t)
  const home = make('home')
  const running = openJournals(home, { wasReleased: false })
  const [name] = databasesIn(home)
  await running.end()
  cpSync(join(killed, 'vault.1.db'), join(home, 'vault.1.db'))
  writeFileSync(join(home, '.vault.0123456789ab.unfinished'), 'half')
  cpSync(join(killed, 'vault.1.db-wal'), join(home, `${name}-wal`))
  t.equal(await valueIn(home), 'before')
  t.notOk(
    readdirSync(home).some((left) => /unfinished|vault\.1\.db/.test(left)),
    String(readdirSync(home)),
  )
})

t.test('a process that is asked whether the home is still its own gives a sign of life', async (t) => {
  const home = folderFor(t)
  const lock = await takeHome(home)
  const file = join(home, 'lock.1')
  utimesSync(file, 1, 1)
  // As when a large database is copied: the event loop is blocked.
  for (const endMs = performance.now() + 600; performance.now() < endMs; ) lock.isOurs()
  t.not(statSync(file).mtimeMs, 1_000)
  lock.release()
})
