import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { mountSmallDisk } from '../../test/helpers/servers/mountSmallDisk.ts'
import { editDatabase, logRowsOf, writeLogRows } from '../../test/helpers/vault/journals.ts'
import { quickHasher } from '../../test/helpers/vault/quickHasher.ts'
import { make, password } from '../../test/helpers/vault/storage.ts'
import type { Vault } from '../ports/vault.ts'
import { createVault } from './createVault.ts'
import { openVault } from './localVault.ts'
import { kdfFloor } from './password/kdf.ts'
import { restoreVault } from './restoreVault.ts'

t.test('files are the owner’s alone and show no value, name, word or password', async (t) => {
  const { vault, home } = await make(t)
  await vault.records.put('value', 'identity.name', 'Ada Lovelace')
  await vault.records.put('credential', 'credentials.api.shop', 'sk-very-secret')
  await vault.close()
  t.equal(statSync(home).mode & 0o777, 0o700)
  const names = readdirSync(home, { recursive: true, encoding: 'utf8' })
  for (const name of names) {
    const stat = statSync(join(home, name))
    t.equal(stat.mode & 0o077, 0, `${name} is closed to others`)
    if (stat.isDirectory()) continue
    const text = readFileSync(join(home, name), 'latin1')
    for (const secret of [
      'Lovelace',
      'sk-very',
      'identity.name',
      'credentials.api',
      'junk',
      'correct horse',
    ]) {
      t.notOk(text.includes(secret), `${secret} is not in ${name}`)
    }
  }
})

t.test('a folder that others can look into is refused', async (t) => {
  const home = t.testdir()
  chmodSync(home, 0o755)
  await t.rejects(createVault({ home, password, hasher: quickHasher }), { code: 'VALIDATION_ERROR' })
})

// Changed bytes of rows have tests of their own; here all files are read by the vault itself.
t.test('a changed byte of any file is noticed, or changes nothing', async (t) => {
  const { vault, home, clock, common } = await make(t)
  await vault.records.put('value', 'identity.name', 'Ada')
  await vault.close()
  const intact = new Map(readdirSync(home).map((name) => [name, readFileSync(join(home, name))]))
  const putBack = () => {
    for (const name of readdirSync(home)) if (!intact.has(name)) rmSync(join(home, name))
    for (const [name, bytes] of intact) writeFileSync(join(home, name), bytes)
  }
  const look = async (): Promise<string> => {
    try {
      const next = await openVault(common)
      try {
        if (next.state.retryAfterMs === 3_600_000) return 'longest wait'
        await next.unlock(password)
        const { ok } = await next.audit.verify()
        if (next.state.auditDamage !== undefined || !ok) return 'LOG_DAMAGED'
        return next.records.getText('value', 'identity.name') === 'Ada' ? 'nothing' : 'another value'
      } finally {
        await next.close()
      }
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  for (const [name, expected] of [
    ['vault.json', /^VAULT_CORRUPT$/],
    ['attempts.json', /^longest wait$/],
    ['audit.head', /^LOG_DAMAGED$/],
    // Half of a page of the database is empty.
    ['vault.1.db', /^(?:VAULT_CORRUPT|LOG_DAMAGED|nothing)$/],
  ] as const) {
    const whole = intact.get(name)!
    const missed: string[] = []
    let noticedOnes = 0
    // Each attempt with an intact header starts a signing process: a few positions of each file, spread over it.
    const step = name.endsWith('.db') ? 577 : 23
    for (let at = 0; at < whole.length; at += step) {
      const changed = Buffer.from(whole)
      changed[at]! ^= 0x01
      writeFileSync(join(home, name), changed)
      const noticed = await look()
      if (noticed !== 'nothing') noticedOnes++
      if (!expected.test(noticed)) missed.push(`${at}: ${noticed}`)
      putBack()
    }
    t.strictSame(missed, [], `${name}, ${whole.length} bytes, ${noticedOnes} noticed`)
    t.ok(noticedOnes > 4)
  }
  clock.pass(1)
  t.equal(await look(), 'nothing')
})

t.test('damage of the log does not keep the owner out, and is logged itself', async (t) => {
  const { vault, home, open } = await make(t)
  for (let n = 0; n < 3; n++) await vault.audit.append({ agent: 'a', action: 'READ', status: 'APPROVED' })
  await vault.close()
  const [first, ...others] = logRowsOf(home)
  const body = Buffer.from(Buffer.from(first!.body).toString().replace('READ', 'SIGN'))
  writeLogRows(home, [{ ...first!, body }, ...others])
  const next = await open()
  t.match((await next.unlock(password)).auditDamage, /entry 1/)
  t.match(await next.audit.verify(), { ok: false, firstBad: 1 })
  const { entries } = await next.audit.query({ action: 'CONFIG' })
  t.match(entries, [{ seq: 4, status: 'FAILED', note: /entry 1/ }])
})

/** The middle of each record's row, as it stands on disk while the vault is open. */
function rowsIn(home: string): Buffer[] {
  const copy = mkdtempSync(join(tmpdir(), 'vault-copy-'))
  cpSync(home, copy, { recursive: true, filter: (name) => !name.endsWith('.sock') })
  const rows = editDatabase(copy, (db) => db.prepare('SELECT sealed FROM records ORDER BY id').all())
  rmSync(copy, { recursive: true })
  return rows.map((row) => Buffer.from(row['sealed'] as Uint8Array).subarray(1_000, 1_032))
}

const filesHold = (home: string, bytes: Buffer): boolean =>
  readdirSync(home).some((name) => readFileSync(join(home, name)).includes(bytes))

t.test(
  'records keep their versions apart, refuse stale writes, and leave nothing of what was deleted',
  async (t) => {
    const { vault, home } = await make(t)
    const { records } = vault
    await t.rejects(records.put('value', 'custom.a', 'x', { ifVersion: 1 }), { code: 'VERSION_CONFLICT' })
    await records.put('value', 'custom.a', 'one', { ifVersion: 0 })
    const writes = [1, 2, 3].map((n) => records.put('value', 'custom.a', `two ${n}`, { ifVersion: 1 }))
    const responses = await Promise.allSettled(writes)
    t.equal(responses.filter(({ status }) => status === 'fulfilled').length, 1, 'of three at once, one wins')
    t.match(records.info('value', 'custom.a'), {
      version: 2,
      id: 'custom.a',
      updatedAt: '2026-03-01T12:00:00.000Z',
    })
    await t.rejects(records.put('value', 'custom.b', Buffer.alloc(256 * 1024 + 1)), {
      code: 'VALIDATION_ERROR',
    })
    await records.put('value', 'custom.b', Buffer.alloc(256 * 1024, 1))
    t.strictSame(
      records.list('value').map(({ id }) => id),
      ['custom.a', 'custom.b'],
    )
    const sealed = rowsIn(home).at(-1)!
    t.ok(filesHold(home, sealed))
    t.equal(await records.delete('value', 'custom.b'), true)
    t.equal(await records.delete('value', 'custom.b'), false)
    t.notOk(filesHold(home, sealed))
    t.equal(records.get('value', 'custom.b'), undefined)
  },
)

t.test('a backup restores everything under its password, and notices any change', async (t) => {
  const { vault, home, common, closing } = await make(t)
  await vault.records.put('value', 'identity.name', 'Ada')
  await vault.importKey(password, 'evm', 'hot', Buffer.alloc(32, 7))
  const spend = { id: 'r', agentId: 'a', spends: [{ asset: 'x', amount: 5n }], limits: [] }
  const reservation = vault.budget.reserve(spend)
  if (reservation.ok) await reservation.durable
  vault.budget.commit('r')
  for (let n = 0; n < 3; n++) await vault.audit.append({ agent: 'a', action: 'SIGN', status: 'APPROVED' })
  const file = join(home, '..', 'backup')
  await vault.backup(file)
  await t.rejects(vault.backup(file), { code: 'ALREADY_EXISTS' })
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.notOk(readFileSync(file, 'latin1').includes('SIGN'), 'the log is encrypted in it')
  const keys = vault.keys.list()

  const into = (name: string) => ({ ...common, home: join(home, '..', name), file, password })
  await t.rejects(restoreVault({ ...into('a'), password: 'wrong password' }), { code: 'BAD_PASSWORD' })
  await t.rejects(restoreVault({ ...into('a'), home }), { code: 'VAULT_IN_USE' })
  const { vault: restored } = await restoreVault(into('a'))
  closing(restored)
  t.equal(restored.vaultId, vault.vaultId)
  t.strictSame(restored.keys.list(), keys)
  t.equal(restored.records.getText('value', 'identity.name'), 'Ada')
  t.match(restored.budget.used({ kind: 'vault' }, 'x'), { spent: 5n })
  t.match(await restored.audit.verify(), { ok: true, entries: 4, authenticated: true })
  await restored.close()

  const whole = readFileSync(file)
  const headerEnd = whole.readUInt32BE(8) + 12
  // A few of the frames, whose every byte has a test of its own; each kind of what comes before them.
  const places = [
    0,
    7,
    8,
    11,
    12,
    100,
    headerEnd - 1,
    headerEnd,
    headerEnd + 15,
    headerEnd + 16,
    headerEnd + 40,
  ]
  for (const at of [...places, Math.floor(whole.length / 2), whole.length - 1]) {
    const changed = Buffer.from(whole)
    changed[at]! ^= 0x01
    writeFileSync(file, changed)
    await t.rejects(restoreVault(into('b')), { code: 'VAULT_CORRUPT' }, `byte ${at}`)
  }
  for (const length of [0, 7, 30, whole.length - 60, whole.length - 1]) {
    writeFileSync(file, whole.subarray(0, length))
    await t.rejects(restoreVault(into('b')), { code: 'VAULT_CORRUPT' }, `${length} bytes`)
  }
  writeFileSync(file, Buffer.concat([whole, Uint8Array.of(0)]))
  await t.rejects(restoreVault(into('b')), { code: 'VAULT_CORRUPT' }, 'one byte more')
  writeFileSync(file, Buffer.concat([Buffer.from('TGVBAK02'), whole.subarray(8)]))
  await t.rejects(restoreVault(into('b')), {
    code: 'VAULT_CORRUPT',
    message: /version 01 of the backup, got version 02, which a newer version of Tollgate wrote/,
  })
})

t.test(
  'a vault that there is no room for leaves a folder in which it can be made once there is',
  async (t) => {
    const disk = mountSmallDisk(t, '4m')
    if (disk === undefined) return
    const folder = mkdtempSync(join(tmpdir(), 'vault-room-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const common = { password, hasher: quickHasher, kdf: kdfFloor }
    const { vault } = await createVault({ ...common, home: join(folder, 'home') })
    for (let n = 0; n < 4; n++) await vault.records.put('value', `custom.n${n}`, 'x'.repeat(150_000))
    const file = join(folder, 'backup')
    await vault.backup(file)
    await vault.close()
    const home = join(disk, 'home')
    const filler = join(disk, 'filler')
    const makings: Readonly<Record<string, () => Promise<{ readonly vault: Vault }>>> = {
      create: () => createVault({ ...common, home }),
      restore: () => restoreVault({ ...common, home, file }),
    }
    for (const [name, make] of Object.entries(makings))
      for (const room of name === 'create' ? [40, 64] : [40, 300, 500]) {
        const { bavail, bsize } = statfsSync(disk)
        writeFileSync(filler, Buffer.alloc(bavail * bsize - room * 1024))
        await t.rejects(make, { code: 'STORAGE_UNAVAILABLE' }, `${name} in ${room} KiB`)
        rmSync(filler)
        const { vault } = await make()
        await vault.close()
        rmSync(home, { recursive: true })
      }
  },
)
