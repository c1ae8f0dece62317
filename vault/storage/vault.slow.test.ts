import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
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
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import { quickHasher } from '../../test/helpers/vault/quickHasher.ts'
import type { Vault } from '../ports/vault.ts'
import type { OwnedSigner } from '../signer/signingProcess.ts'
import { createVault } from './createVault.ts'
import { openVault } from './localVault.ts'
import { kdfFloor } from './password/kdf.ts'
import { restoreVault } from './restoreVault.ts'

const password = 'correct horse battery'
const mnemonic = 'test test test test test test test test test test test junk'
const firstEvm = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const firstSolana = 'oeYf6KAJkLYhBuR8CiGc6L4D4Xtfepr85fuDgA9kq96'

type Test = { teardown(end: () => Promise<void>): void }

/** A folder of the test's own, removed once the vaults in it are closed. */
function folderFor(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-vault-'))
  const opened: Vault[] = []
  t.teardown(async () => {
    for (const vault of opened) await vault.close()
    rmSync(folder, { recursive: true })
  })
  const closing = (vault: Vault): Vault => {
    opened.push(vault)
    return vault
  }
  return { folder, closing }
}

/** A vault without the cost of Argon2id, on a clock that stands still. */
async function make(t: Test, options: { clock?: ManualClock } = {}) {
  const { clock = new ManualClock() } = options
  const { folder, closing } = folderFor(t)
  const home = join(folder, 'vault')
  const common = { home, clock, hasher: quickHasher }
  const { vault } = await createVault({ ...common, password, mnemonic, kdf: kdfFloor })
  closing(vault)
  const open = async (): Promise<Vault> => closing(await openVault(common))
  return { vault, home, clock, open, common, closing }
}

const message = (requestId: string, keyId = 'evm:0') =>
  ({ requestId, keyId, kind: 'evm-message', bytes: Buffer.from('hello') }) as const

t.test(
  'a vault with the real password hash gives back what was put in, after closing and opening',
  async (t) => {
    const { folder, closing } = folderFor(t)
    const home = join(folder, 'vault')
    const { vault, mnemonic: words } = await createVault({ home, password, kdf: kdfFloor })
    closing(vault)
    t.equal(words.split(' ').length, 24)
    t.equal(vault.state.locked, false)
    const before = vault.keys.list()
    t.match(await vault.records.put('value', 'identity.name', 'Ada'), { version: 1, created: true })
    t.match(await vault.records.put('value', 'identity.name', 'Ada L.'), { version: 2, created: false })
    await vault.records.putJson('agent', 'agt_1', { name: 'shopper' })
    await vault.close()

    const again = closing(await openVault({ home }))
    t.equal(again.state.locked, true)
    await again.unlock(password)
    t.strictSame(again.keys.list(), before)
    t.equal(again.records.getText('value', 'identity.name'), 'Ada L.')
    t.strictSame(again.records.getJson('agent', 'agt_1'), { name: 'shopper' })
    t.equal(await again.exportMnemonic(password), words)
  },
)

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

t.test('locked, it gives nothing; unlocked again, it gives everything', async (t) => {
  const { vault } = await make(t)
  await vault.records.put('value', 'identity.name', 'Ada')
  const reasons: string[] = []
  vault.onLock((reason) => reasons.push(reason))
  const underWay = vault.signer.sign(message('a')).then(
    () => 'signed',
    (error) => error.code,
  )
  await vault.lock()
  t.match(await underWay, /^(signed|VAULT_LOCKED)$/)
  t.strictSame(reasons, ['owner'])
  t.match(vault.state, { locked: true, locksAtMs: undefined })
  const locked = { code: 'VAULT_LOCKED' }
  t.throws(() => vault.records.get('value', 'identity.name'), locked)
  t.throws(() => vault.records.list('value'), locked)
  t.throws(() => vault.keys.list(), locked)
  t.throws(() => vault.keys.default('evm'), locked)
  t.throws(() => vault.budget.used({ kind: 'vault' }, 'x'), locked)
  t.throws(() => vault.assertUnlocked(), locked)
  await t.rejects(vault.records.put('value', 'identity.name', 'Eve'), locked)
  await t.rejects(vault.signer.sign(message('b')), locked)
  await t.rejects(vault.exportMnemonic(password), locked)
  await t.rejects(vault.backup('/nowhere'), locked)
  await vault.audit.append({ agent: 'owner', action: 'UNLOCK', status: 'FAILED' })
  await vault.unlock(password)
  t.equal(vault.records.getText('value', 'identity.name'), 'Ada')
  t.equal((await vault.signer.sign(message('c'))).bytes.length, 65)
  t.match(await vault.audit.verify(), { ok: true, authenticated: true })
})

t.test('locking, unlocking and closing in any order at once leave one consistent vault', async (t) => {
  const { vault } = await make(t)
  await vault.records.put('value', 'identity.name', 'Ada')
  await Promise.all([
    vault.lock(),
    vault.unlock(password),
    vault.lock(),
    vault.unlock(password),
    vault.lock(),
  ])
  t.equal(vault.state.locked, true)
  await Promise.all([vault.unlock(password), vault.unlock(password)])
  t.equal(vault.records.getText('value', 'identity.name'), 'Ada')
  const unlocking = vault.unlock(password)
  await Promise.all([vault.lock(), unlocking])
  t.equal(vault.state.locked, true, 'a lock that is asked for while unlocking is not lost')
  await vault.close()
  await t.rejects(vault.unlock(password), { code: 'VAULT_LOCKED' })
})

t.test('it locks itself when idle, and after its longest time however busy', async (t) => {
  const { vault, clock } = await make(t)
  const reasons: string[] = []
  vault.onLock((reason) => reasons.push(reason))
  clock.pass(14 * 60_000)
  vault.keys.list()
  clock.pass(14 * 60_000)
  t.equal(vault.state.locked, false, 'each use begins the idle time anew')
  clock.pass(60_000)
  t.equal(vault.state.locked, true)
  t.throws(() => vault.keys.list(), { code: 'VAULT_LOCKED' })
  await vault.lock()
  t.strictSame(reasons, ['idle'])

  await vault.unlock(password)
  for (let minutes = 0; minutes < 12 * 60; minutes += 10) {
    vault.keys.list()
    clock.pass(10 * 60_000)
  }
  t.throws(() => vault.keys.list(), { code: 'VAULT_LOCKED' })
  await vault.lock()
  t.strictSame(reasons, ['idle', 'age'])
})

t.test('neither a clock turned back nor a long sleep of the machine keeps it open', async (t) => {
  const { vault, clock } = await make(t)
  clock.wallMs -= 3_600_000
  clock.elapsedMs += 15 * 60_000
  t.throws(() => vault.keys.list(), { code: 'VAULT_LOCKED' }, 'the monotonic clock went on')
  await vault.lock()
  await vault.unlock(password)
  clock.wallMs += 15 * 60_000
  t.throws(() => vault.keys.list(), { code: 'VAULT_LOCKED' }, 'the monotonic clock stood still')
  await vault.lock()
})

t.test(
  'wrong passwords wait longer and longer, wherever they are asked for and across restarts',
  async (t) => {
    const { vault, clock, open } = await make(t)
    await vault.close()
    let waitS = 1
    for (let n = 0; n < 3; n++) {
      const next = await open()
      await t.rejects(next.unlock('wrong password'), { code: 'BAD_PASSWORD', retryAfterSeconds: waitS })
      await t.rejects(
        next.unlock(password),
        { code: 'TOO_MANY_ATTEMPTS', retryAfterSeconds: waitS },
        'not even looked at',
      )
      await next.close()
      const restarted = await open()
      clock.pass(waitS * 1_000 - 1)
      await t.rejects(restarted.unlock(password), { code: 'TOO_MANY_ATTEMPTS' })
      clock.pass(1)
      await restarted.close()
      waitS *= 2
    }
    const last = await open()
    await last.unlock(password)
    await t.rejects(last.exportMnemonic('wrong password'), { code: 'BAD_PASSWORD', retryAfterSeconds: 1 })
    await t.rejects(last.exportMnemonic(password), { code: 'TOO_MANY_ATTEMPTS' })
    clock.pass(1_000)
    t.equal(await last.exportMnemonic(password), mnemonic)
  },
)

t.test('many guesses at once are looked at one after the other', async (t) => {
  const { vault } = await make(t)
  await vault.lock()
  const responses = await Promise.allSettled(
    Array.from({ length: 8 }, (_, n) => vault.unlock(`wrong password ${n}`)),
  )
  const codes = responses.map((response) => (response as PromiseRejectedResult).reason.code)
  t.strictSame(codes, ['BAD_PASSWORD', ...Array(7).fill('TOO_MANY_ATTEMPTS')])
})

t.test('a changed password opens, the old one does not, and no record was written anew', async (t) => {
  const made = await make(t)
  const { home, clock, open } = made
  let { vault } = made
  await vault.records.put('value', 'identity.name', 'Ada')
  const records = () => editDatabase(home, (db) => db.prepare('SELECT * FROM records').all())
  await vault.close()
  const before = records()
  vault = await open()
  await vault.unlock(password)
  await t.rejects(vault.changePassword('wrong password', 'another password'), { code: 'BAD_PASSWORD' })
  clock.pass(1_000)
  t.throws(() => vault.changePassword(password, 'short'), { code: 'VALIDATION_ERROR' })
  await vault.changePassword(password, 'another password')
  await vault.close()
  t.strictSame(records(), before)
  const next = await open()
  await t.rejects(next.unlock(password), { code: 'BAD_PASSWORD' })
  clock.pass(1_000)
  await next.unlock('another password')
  t.equal(next.records.getText('value', 'identity.name'), 'Ada')
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

t.test(
  'a signing process that ends locks the vault, says so, and begins anew with the next unlock',
  async (t) => {
    const { vault } = await make(t)
    await vault.records.put('value', 'identity.name', 'Ada')
    const locked = new Promise((resolve) => vault.onLock(resolve))
    const pid = (vault.signer as OwnedSigner).pid!
    process.kill(pid, 'SIGSTOP')
    const underWay = vault.signer.sign(message('a'))
    process.kill(pid, 'SIGKILL')
    await t.rejects(underWay, { code: 'SIGNER_LOST' })
    t.equal(await locked, 'signer')
    t.match(vault.state, { locked: true, lockReason: 'signer' })
    t.throws(() => vault.records.get('value', 'identity.name'), { code: 'VAULT_LOCKED' })
    await t.rejects(vault.signer.sign(message('b')), { code: 'VAULT_LOCKED' })
    await vault.unlock(password)
    t.match(vault.state, { locked: false, lockReason: undefined })
    t.equal((await vault.signer.sign(message('b'))).bytes.length, 65)
    const { entries } = await vault.audit.query({ action: 'LOCK' })
    t.match(entries, [{ agent: 'vault', status: 'FAILED', note: /signing process exited/ }])
    t.match(await vault.audit.verify(), { ok: true, authenticated: true })
  },
)

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

t.test('one process has a vault; a killed one leaves it to the next', async (t) => {
  const { vault, home, open, common } = await make(t)
  await t.rejects(open(), { code: 'VAULT_IN_USE' })
  await t.rejects(createVault({ ...common, password }), { code: 'VAULT_IN_USE' })
  await vault.close()
  await t.rejects(createVault({ ...common, password }), { code: 'VAULT_EXISTS' })
  const holder = `
    import { openVault } from ${JSON.stringify(import.meta.resolve('./localVault.ts'))}
    await openVault({ home: process.argv[1] })
    console.log('open')
    process.stdin.resume()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', holder, home], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  await t.rejects(open(), { code: 'VAULT_IN_USE' })
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
  await (await open()).unlock(password)
  await t.rejects(openVault({ ...common, home: join(home, 'nowhere') }), { code: 'VAULT_NOT_FOUND' })
})

t.test('keys are derived, imported, exported and chosen, and sign as themselves', async (t) => {
  const { vault, open } = await make(t)
  t.equal(vault.keys.default('evm').address, firstEvm)
  t.equal(vault.keys.default('solana').address, firstSolana)
  const second = await vault.keys.derive('evm', 1)
  t.equal(second.address, '0x70997970C51812dc3A010C7d01b50e0d17dc79C8')
  await vault.keys.setDefault('evm', 'evm:1')
  await t.rejects(vault.keys.setDefault('evm', 'solana:0'), { code: 'VALIDATION_ERROR' })
  await t.rejects(vault.keys.setDefault('evm', 'evm:9'), { code: 'KEY_UNKNOWN' })
  const raw = Buffer.alloc(32, 7)
  const imported = await vault.importKey(password, 'evm', 'hot', raw)
  t.ok(
    raw.every((byte) => byte === 0),
    'the bytes given are zeroed',
  )
  await t.rejects(vault.importKey(password, 'evm', 'hot', Buffer.alloc(32, 8)), { code: 'ALREADY_EXISTS' })
  await t.rejects(vault.importKey(password, 'evm', 'zero', Buffer.alloc(32)), { code: 'VALIDATION_ERROR' })
  const signature = (await vault.signer.sign(message('a', 'import:hot'))).bytes
  t.strictSame(await vault.exportKey(password, 'import:hot'), Buffer.alloc(32, 7))
  const exported = await vault.exportKey(password, 'evm:0')
  t.equal(exported.toString('hex'), 'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80')
  await vault.close()
  const next = await open()
  await next.unlock(password)
  t.equal(next.keys.default('evm').keyId, 'evm:1')
  t.strictSame(next.keys.get('import:hot'), imported)
  t.strictSame((await next.signer.sign(message('b', 'import:hot'))).bytes, signature)
})

t.test(
  'another mnemonic gives other addresses, keeps imported keys, and comes with the next start',
  async (t) => {
    const { vault, open } = await make(t)
    await vault.importKey(password, 'solana', 'hot', Buffer.alloc(32, 7))
    await vault.keys.derive('solana', 2)
    const words = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
    await t.rejects(vault.importMnemonic(password, `${words} extra`), { code: 'VALIDATION_ERROR' })
    t.equal(vault.keys.default('evm').address, firstEvm, 'a refused one changes nothing')
    await vault.importMnemonic(password, words)
    t.not(vault.keys.default('evm').address, firstEvm)
    t.strictSame(
      vault.keys
        .list()
        .map(({ keyId }) => keyId)
        .toSorted(),
      ['evm-test:0', 'evm:0', 'import:hot', 'solana-test:0', 'solana:0', 'solana:2'],
    )
    t.equal(await vault.exportMnemonic(password), words)
    const keys = vault.keys.list()
    await vault.close()
    const next = await open()
    await next.unlock(password)
    t.strictSame(next.keys.list(), keys)
    await next.importMnemonic(password, mnemonic)
    t.equal(next.keys.default('evm').address, firstEvm)
  },
)

t.test('keys are not among the records that the host can name', async (t) => {
  const { vault } = await make(t)
  for (const collection of ['key', '', 'constructor']) {
    const wrong = { code: 'VALIDATION_ERROR' }
    t.throws(() => vault.records.get(collection as never, 'seed'), wrong)
    t.throws(() => vault.records.list(collection as never), wrong)
    await t.rejects(vault.records.delete(collection as never, 'seed'), wrong)
    await t.rejects(vault.records.put(collection as never, 'seed', 'x'), wrong)
  }
  t.throws(() => vault.records.get('value', 'seed'), { code: 'UNKNOWN_SCOPE' })
  t.throws(() => vault.records.get('state', ''), { code: 'VALIDATION_ERROR' })
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

t.test('passwords that are too short or no text are refused before anything is made', async (t) => {
  const home = join(t.testdir(), 'vault')
  for (const wrong of ['', 'seven77', 'x'.repeat(1025), undefined, 12345678]) {
    await t.rejects(createVault({ home, password: wrong as never }), { code: 'VALIDATION_ERROR' })
  }
  t.throws(() => statSync(home), { code: 'ENOENT' })
})

t.test(
  'a vault whose folder another process took while it stood still writes nothing more and locks itself',
  async (t) => {
    const { vault, home, common, closing } = await make(t)
    await vault.records.putJson('policy', 'default', { kept: 1 })
    // As if another process had held the folder since, and was killed.
    const text = readFileSync(join(home, 'lock.1'), 'utf8')
    const killed = JSON.stringify({ ...JSON.parse(text.slice(0, text.lastIndexOf(' '))), startedAt: '1' })
    writeFileSync(join(home, 'lock.2'), `${killed} ${createHash('sha256').update(killed).digest('hex')}`)
    rmSync(join(home, 'lock.1'))
    const successor = closing(await openVault(common))
    await successor.unlock(password)
    await successor.records.putJson('policy', 'default', { kept: 1 })
    const files = () =>
      readdirSync(home)
        .filter((name) => name.startsWith('vault.'))
        .map((name) => [name, readFileSync(join(home, name))])
    const before = files()
    const isLost = { code: /^(?:VAULT_IN_USE|VAULT_LOCKED)$/ }
    await t.rejects(vault.records.putJson('policy', 'default', { kept: 2 }), isLost)
    await t.rejects(vault.records.putJson('policy', 'other', { kept: 2 }), isLost)
    await t.rejects(vault.audit.append({ agent: 'owner', action: 'CONFIG', status: 'APPROVED' }), isLost)
    t.strictSame(files(), before)
    while (!vault.state.locked) await new Promise((resolve) => setTimeout(resolve, 50))
    t.equal(vault.state.lockReason, 'taken')
    await t.rejects(vault.unlock(password), { code: 'VAULT_IN_USE' })
    await successor.records.putJson('policy', 'default', { kept: 3 })
    await vault.close()
    await successor.lock()
    await successor.unlock(password)
    t.strictSame(successor.records.getJson('policy', 'default'), { kept: 3 })
    t.match(await successor.audit.verify(), { ok: true })
  },
)

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
