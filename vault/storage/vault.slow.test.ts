import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { folderFor, make, message, password } from '../../test/helpers/vault/storage.ts'
import { createVault } from './createVault.ts'
import { openVault } from './localVault.ts'
import { kdfFloor } from './password/kdf.ts'

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
