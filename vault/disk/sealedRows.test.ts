import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { mountSmallDisk } from '../../test/helpers/servers/mountSmallDisk.ts'
import { editDatabase, openJournals } from '../../test/helpers/vault/journals.ts'
import { databaseFileIn } from './databaseFile.ts'

const spent = { agent: 'shopper', action: 'SIGN', status: 'AUTO_APPROVED' } as const
const damaged = { code: 'VAULT_CORRUPT', message: /vault\.1\.db of the vault is damaged/ }

const spends = [{ asset: 'usdc', amount: 1n, recipient: 'shop' }]
const request = (id: string) => ({ id, spends, agentId: 'agt_1', limits: [] })

function folderFor(t: Pick<Tap, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'vault-rows-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
type Tap = typeof t

type Row = Record<string, unknown>
const tables = ['records', 'budget', 'state'] as const

const rowsOf = (home: string): Record<(typeof tables)[number], Row[]> =>
  editDatabase(home, (db) => {
    const all = (table: string) => db.prepare(`SELECT * FROM ${table} ORDER BY id`).all() as Row[]
    return { records: all('records'), budget: all('budget'), state: all('state') }
  })

t.test('each row alone put back to an older state, removed, added or moved is noticed', async (t) => {
  const home = folderFor(t)
  const write = async (text: string, isFirst: boolean) => {
    const { store, budget, end } = openJournals(home)
    for (const id of ['a', 'b', 'c']) await store.put('value', `custom.${id}`, `${id} ${text}`)
    if (isFirst) await store.put('value', 'custom.gone', 'x')
    else await store.delete('value', 'custom.gone')
    for (const id of ['one', 'two']) {
      const reserved = budget.reserve(request(`${text} ${id}`))
      if (reserved.ok) await reserved.durable
    }
    await end()
  }
  await write('older', true)
  const older = rowsOf(home)
  await write('newer', false)
  const newer = rowsOf(home)
  const noticed = (what: string, edit: (db: DatabaseSync) => void) => {
    editDatabase(home, edit)
    t.throws(() => openJournals(home), { code: 'VAULT_CORRUPT' }, what)
    editDatabase(home, (db) => {
      for (const table of tables) {
        db.exec(`DELETE FROM ${table}`)
        for (const row of newer[table]) {
          const names = Object.keys(row)
          const marks = names.map(() => '?').join()
          db.prepare(`INSERT INTO ${table} (${names.join()}) VALUES (${marks})`).run(
            ...(Object.values(row) as never[]),
          )
        }
      }
    })
  }
  const put =
    (table: string, { id, sealed }: Row) =>
    (db: DatabaseSync) =>
      void db
        .prepare(`INSERT OR REPLACE INTO ${table} (id, sealed) VALUES (?, ?)`)
        .run(id as number, sealed as Uint8Array)
  for (const table of ['records', 'budget'] as const) {
    for (const row of older[table]) {
      const is = newer[table].find(({ id }) => id === row['id'])
      if (is !== undefined && Buffer.from(is['sealed'] as Uint8Array).equals(row['sealed'] as Uint8Array))
        continue
      noticed(`${table} ${row['id']} put back`, put(table, row))
    }
    for (const row of newer[table]) {
      noticed(`${table} ${row['id']} removed`, (db) =>
        db.prepare(`DELETE FROM ${table} WHERE id = ?`).run(row['id'] as number),
      )
      noticed(`${table} ${row['id']} doubled`, put(table, { ...row, id: 99 }))
    }
  }
  noticed('the state put back', (db) =>
    db.prepare('UPDATE state SET sealed = ?').run(older.state[0]!['sealed'] as Uint8Array),
  )
  noticed('all rows and the state put back', (db) => {
    for (const table of ['records', 'budget'] as const) {
      db.exec(`DELETE FROM ${table}`)
      for (const row of older[table]) put(table, row)(db)
    }
    db.prepare('UPDATE state SET sealed = ?').run(older.state[0]!['sealed'] as Uint8Array)
  })
  noticed('the state removed', (db) => db.exec('DELETE FROM state'))
  const { store, end } = openJournals(home)
  t.equal(store.getText('value', 'custom.b'), 'b newer', 'and put back, all is well')
  await end()
})

t.test(
  'nothing that is sealed stands in the open in any file, also not while the vault is open',
  async (t) => {
    const home = folderFor(t)
    const { store, budget, end } = openJournals(home)
    await store.put('value', 'identity.name', 'Ada Lovelace')
    const reserved = budget.reserve({ ...request('lipstick'), agentId: 'agt_secret' })
    if (reserved.ok) await reserved.durable
    t.ok(readdirSync(home).includes('vault.1.db-wal'))
    const look = () => {
      for (const name of readdirSync(home))
        for (const secret of ['identity', 'Lovelace', 'agt_secret', 'usdc', 'lipstick', 'reserve'])
          t.notOk(readFileSync(join(home, name)).includes(secret), `${secret} in ${name}`)
    }
    look()
    await end()
    look()
  },
)

t.test('a power cut in the middle of a transaction leaves all of it or nothing', async (t) => {
  const home = folderFor(t)
  const { store, budget, audit, end } = openJournals(home)
  const change = async (n: number) => {
    const reserved = budget.reserve(request(`r${n}`))
    await Promise.all([
      reserved.ok && reserved.durable,
      store.put('value', 'identity.name', `${n}`.repeat(200)),
      audit.append({ ...spent, note: `entry ${n}` }),
    ])
  }
  await store.put('value', 'custom.first', 'x')
  const walBytes = () => readFileSync(join(home, 'vault.1.db-wal'))
  const crashed = folderFor(t)
  for (let n = 1; n <= 4; n++) {
    const before = walBytes()
    const head = readFileSync(join(home, 'audit.head'))
    await change(n)
    const after = walBytes()
    // A disk may keep any of the sectors that were not flushed.
    const images = [0.1, 0.4, 0.7, 0.99].flatMap((part) => {
      const at = before.length + Math.floor((after.length - before.length) * part)
      const torn = Buffer.from(after)
      torn.fill(0, at, Math.min(after.length, at + 512))
      return [after.subarray(0, at), torn]
    })
    for (const [i, image] of [...images, after].entries()) {
      cpSync(home, crashed, { recursive: true })
      writeFileSync(join(crashed, 'vault.1.db-wal'), image)
      // It is written later than the transaction that it names.
      writeFileSync(join(crashed, 'audit.head'), head)
      const found = openJournals(crashed, { wasReleased: false })
      const kept = found.store.getText('value', 'identity.name')?.[0] ?? '0'
      t.ok(kept === String(n) || (kept === String(n - 1) && i < images.length), `change ${n}, image ${i}`)
      t.equal(found.budget.usedAll({ kind: 'vault' })[0]?.reserved ?? 0n, BigInt(kept))
      t.match(await found.audit.verify(), { ok: true, entries: Number(kept) })
      t.equal(found.audit.damage, undefined)
      await found.end()
      rmSync(crashed, { recursive: true })
    }
  }
  await end()
})

t.test(
  'whichever part of the database is wiped, the vault opens or says that the file is damaged',
  async (t) => {
    const home = folderFor(t)
    const { store, budget, audit, end } = openJournals(home)
    for (let n = 0; n < 20; n++) {
      const reserved = budget.reserve(request(`r${n}`))
      await Promise.all([
        reserved.ok && reserved.durable,
        store.put('value', `custom.n${n}`, 'x'.repeat(300)),
        audit.append(spent),
      ])
    }
    await end()
    const file = databaseFileIn(home)!
    const whole = readFileSync(file)
    let refused = 0
    for (let at = 0; at < whole.length; at += 512) {
      const wiped = Buffer.from(whole)
      wiped.fill(0, at, at + 512)
      writeFileSync(file, wiped)
      try {
        await openJournals(home).end()
      } catch (error) {
        refused++
        if ((error as { code?: string }).code !== 'VAULT_CORRUPT') t.fail(`wiped at ${at}: ${error}`)
      }
      rmSync(`${file}-wal`, { force: true })
    }
    t.ok(refused > 20, `${refused} refused`)
  },
)

t.test('on a full disk nothing is taken in part, and it goes on as soon as there is room', async (t) => {
  const disk = mountSmallDisk(t, '3m')
  if (disk === undefined) return
  const { store, budget, audit, end } = openJournals(disk)
  await store.put('value', 'identity.name', 'first')
  const refused = { code: 'STORAGE_UNAVAILABLE', message: /Check that the disk has free space/ }
  const filler = join(disk, 'filler')
  try {
    writeFileSync(filler, Buffer.alloc(8 << 20))
  } catch {}
  const large = 'x'.repeat(200_000)
  const reserved = budget.reserve(request('r1'))
  const all = await Promise.allSettled([
    store.put('value', 'identity.name', large),
    reserved.ok && reserved.durable,
    audit.append(spent),
  ])
  for (const one of all) t.match(one, { status: 'rejected', reason: refused })
  t.match(audit.warnings, [{ code: 'LOG_UNWRITABLE' }])
  t.equal(store.getText('value', 'identity.name'), 'first')
  t.strictSame(budget.usedAll({ kind: 'vault' }), [])
  rmSync(filler)
  t.match(await audit.append(spent), { seq: 1 }, 'the number that was refused is given again')
  t.strictSame(audit.warnings, [])
  await store.put('value', 'identity.name', 'second')
  t.match(await audit.verify(), { ok: true, entries: 1 })
  await end()
  const again = openJournals(disk)
  t.equal(again.store.getText('value', 'identity.name'), 'second')
  await again.end()
})

t.test(
  'a process that takes a home over continues in a copy, whatever the other one still does',
  async (t) => {
    const home = folderFor(t)
    const paused = openJournals(home)
    await paused.store.put('value', 'identity.name', 'before')
    const successor = openJournals(home, { wasReleased: false })
    t.match(databaseFileIn(home), /vault\.2\.db$/)
    t.equal(successor.store.getText('value', 'identity.name'), 'before')
    await successor.store.put('value', 'identity.name', 'after')
    // Like a paused process that resumes: it writes to its own file, copies its log into it and removes the log.
    await paused.store.put('value', 'identity.name', 'late')
    await paused.end()
    await successor.store.put('value', 'identity.email', 'a@b.c')
    const copy = folderFor(t)
    cpSync(home, copy, { recursive: true })
    const killed = openJournals(copy, { wasReleased: false })
    t.equal(killed.store.getText('value', 'identity.name'), 'after')
    t.equal(killed.store.getText('value', 'identity.email'), 'a@b.c')
    await killed.end()
    await successor.end()
    t.strictSame(
      readdirSync(home).filter((name) => name.startsWith('vault.')),
      ['vault.2.db'],
    )
  },
)

t.test('a database of a newer version is named as that, and stays as it is', async (t) => {
  const home = folderFor(t)
  await openJournals(home).end()
  editDatabase(home, (db) => db.exec('PRAGMA user_version = 2'))
  const before = readFileSync(databaseFileIn(home)!)
  t.throws(() => openJournals(home), {
    code: 'VAULT_CORRUPT',
    message: /version 1 of vault\.1\.db, got version 2, which a newer version of Tollgate wrote/,
  })
  t.ok(readFileSync(databaseFileIn(home)!).equals(before))
  editDatabase(home, (db) => {
    db.exec('PRAGMA user_version = 1')
    db.exec('CREATE TRIGGER forget AFTER INSERT ON budget BEGIN DELETE FROM budget; END')
  })
  t.throws(() => openJournals(home), damaged, 'with a trigger')
  for (const bytes of ['', 'no database at all'.repeat(300)]) {
    writeFileSync(databaseFileIn(home)!, bytes)
    t.throws(() => openJournals(home), damaged)
  }
})
