import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readLine, writeLine } from '../audit/auditLine.ts'
import type { AuditEvent, AuditStatus } from '../ports/audit.ts'
import type { Vault } from '../ports/vault.ts'
import { ManualClock } from '../testing/manualClock.ts'
import { quickHasher } from '../testing/quickHasher.ts'
import { openVault } from './openVault.ts'
import { restoreVault } from './restoreVault.ts'

const password = 'correct horse battery'
const mnemonic = 'test test test test test test test test test test test junk'
const otherWords = 'legal winner thank year wave sausage worth useful legal winner thank yellow'

/** A vault as the first version wrote it, with every record under the master key, and its backup. */
const stored = JSON.parse(
  readFileSync(new URL('../testing/homeOfVersion1.json', import.meta.url), 'utf8'),
) as { readonly files: Readonly<Record<string, string>>; readonly backup: string }

function oldHome(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-vault-'))
  const opened: Vault[] = []
  t.teardown(async () => {
    for (const vault of opened) await vault.close()
    rmSync(folder, { recursive: true })
  })
  const home = join(folder, 'vault')
  const file = join(folder, 'backup')
  mkdirSync(join(home, 'audit'), { recursive: true, mode: 0o700 })
  chmodSync(home, 0o700)
  const write = (names = Object.keys(stored.files)) => {
    for (const name of names)
      writeFileSync(join(home, name), Buffer.from(stored.files[name]!, 'base64'), { mode: 0o600 })
  }
  write()
  writeFileSync(file, Buffer.from(stored.backup, 'base64'))
  const common = { clock: new ManualClock(), hasher: quickHasher }
  const keep = (vault: Vault): Vault => {
    opened.push(vault)
    return vault
  }
  return {
    home,
    write,
    open: async () => keep(await openVault({ ...common, home })),
    restore: async () => {
      const restored = await restoreVault({ ...common, home: join(folder, 'restored'), file, password })
      keep(restored.vault)
      return restored
    },
    versionOf: (where = home): unknown => JSON.parse(readFileSync(join(where, 'vault.json'), 'utf8')).version,
    restored: join(folder, 'restored'),
  }
}

const call = (status: AuditStatus): AuditEvent => ({ agent: 'shopper', action: 'CALL', status })

/** Entries behind the end of the log without a code: the first version wrote those that came late, and anybody could. */
function appendLate(home: string, events: readonly AuditEvent[]): void {
  const folder = join(home, 'audit')
  const file = join(folder, readdirSync(folder).sort().at(-1)!)
  for (const event of events) {
    const { seq, hash } = readLine(Buffer.from(readFileSync(file, 'utf8').trimEnd().split('\n').at(-1)!))!
    const place = { seq: seq + 1, prev: hash, timestamp: '2026-11-01T12:00:00.000Z' }
    appendFileSync(file, writeLine(event, place, undefined).line)
  }
}

/** That everything is in it which the first version put there. */
async function assertContents(t: Test, vault: Vault, entries: number): Promise<void> {
  t.equal(vault.records.getText('value', 'identity.name'), 'Ada L.')
  t.equal(vault.records.info('value', 'identity.name')?.version, 2)
  t.equal(vault.records.getText('credential', 'credentials.api.shop'), 'sk-very-secret')
  t.match(vault.records.getJson('agent', 'agt_1'), { name: 'shopper' })
  t.equal(vault.keys.get('evm:0').address, '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266')
  t.equal(vault.keys.default('evm').keyId, 'evm:1')
  t.equal(vault.keys.default('solana').address, 'oeYf6KAJkLYhBuR8CiGc6L4D4Xtfepr85fuDgA9kq96')
  t.strictSame(await vault.exportKey(password, 'import:hot'), Buffer.alloc(32, 7))
  t.strictSame(await vault.exportKey(password, 'import:sun'), Buffer.alloc(32, 9))
  t.equal(await vault.exportMnemonic(password), mnemonic)
  t.match(vault.budget.used({ kind: 'vault' }, 'eip155:8453/slip44:60'), { spent: 5n })
  t.match(await vault.audit.verify(), { ok: true, entries, authenticated: true })
  const request = {
    requestId: 'a',
    keyId: 'import:hot',
    kind: 'evm-message',
    bytes: Buffer.from('x'),
  } as const
  t.equal((await vault.signer.sign(request)).bytes.length, 65)
}

t.test('a vault of the first version opens and becomes one of the second', async (t) => {
  const { open, versionOf } = oldHome(t)
  const vault = await open()
  await t.rejects(vault.unlock('wrong password'), { code: 'BAD_PASSWORD' })
  await t.rejects(vault.unlock(password), { code: 'TOO_MANY_ATTEMPTS' })
  await vault.close()
  t.equal(versionOf(), 1, 'not before it is open')
  const next = oldHome(t)
  const upgraded = await next.open()
  await upgraded.changePassword(password, 'another password')
  t.equal(next.versionOf(), 1, 'nor by another password alone')
  await upgraded.unlock('another password')
  t.equal(next.versionOf(), 2)
  await upgraded.changePassword('another password', password)
  await assertContents(t, upgraded, 1)
  await upgraded.importMnemonic(password, otherWords)
  await upgraded.importMnemonic(password, mnemonic)
  await upgraded.records.put('value', 'identity.name', 'Ada', { ifVersion: 2 })
  await upgraded.close()
  const again = await next.open()
  await again.unlock(password)
  t.equal(again.records.getText('value', 'identity.name'), 'Ada')
  t.equal(again.keys.get('evm:0').address, '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266')
})

t.test('what a crash left half way is brought to its end, wherever it came', async (t) => {
  const { home, open, write, versionOf } = oldHome(t)
  // The header is written last: without it both files are new, and neither says anything of the other.
  const inTheWay = join(home, '.vault.json.unfinished')
  mkdirSync(inTheWay)
  const first = await open()
  await t.rejects(first.unlock(password))
  await first.close()
  rmSync(inTheWay, { recursive: true })
  const upgraded = ['records.log', 'budget.log'].map(
    (name) => [name, readFileSync(join(home, name))] as const,
  )
  for (const old of [['budget.log', 'vault.json'], ['vault.json'], ['records.log', 'vault.json']]) {
    for (const [name, bytes] of upgraded) writeFileSync(join(home, name), bytes)
    write(old)
    const next = await open()
    await next.unlock(password)
    t.equal(versionOf(), 2)
    t.equal(next.keys.get('evm:0').address, '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266', old.join(', '))
    t.equal(next.records.getText('credential', 'credentials.api.shop'), 'sk-very-secret')
    t.match(next.budget.used({ kind: 'vault' }, 'eip155:8453/slip44:60'), { spent: 5n })
    await next.close()
  }
})

t.test('what is damaged of an old vault is named, and nothing of it is written anew', async (t) => {
  const { home, open, write, versionOf } = oldHome(t)
  for (const [name, at] of [
    ['records.log', 12],
    ['records.log', 5_000],
    ['budget.log', 30],
  ] as const) {
    write()
    const bytes = readFileSync(join(home, name))
    bytes[at]! ^= 1
    writeFileSync(join(home, name), bytes)
    const vault = await open()
    await t.rejects(vault.unlock(password), { code: 'VAULT_CORRUPT', message: RegExp(name) })
    await vault.close()
    t.equal(versionOf(), 1)
    t.strictSame(readFileSync(join(home, name)), bytes)
  }
})

t.test(
  'a call that ended after the first version was locked is told and is no damage of its log',
  async (t) => {
    const late = [call('AUTO_APPROVED'), { ...call('FAILED'), code: 'UPSTREAM_ERROR' }]
    const { home, open } = oldHome(t)
    appendLate(home, late)
    const vault = await open()
    await vault.unlock(password)
    const told = {
      ok: true,
      unauthenticated: [{ from: 2, to: 3, count: 2, late: true }],
      authenticated: true,
    }
    t.match(await vault.audit.verify(), told)
    t.equal(vault.audit.damage, undefined)
    await vault.close()
    t.match(await vault.audit.verify(), { ok: true, authenticated: false })
    const again = await open()
    await again.unlock(password)
    t.match(await again.audit.verify(), told)
    await again.close()
    appendLate(home, late.slice(0, 1))
    const forged = await open()
    await forged.unlock(password)
    t.match(
      await forged.audit.verify(),
      { ok: false, reason: /CALL AUTO_APPROVED/ },
      'but not in a newer log',
    )
    t.match(forged.audit.damage, /has no code/)

    const other = oldHome(t)
    appendLate(other.home, [{ ...call('APPROVED'), action: 'SIGN' }])
    const signed = await other.open()
    await signed.unlock(password)
    t.match(await signed.audit.verify(), { ok: false, firstBad: 2 }, 'nor a signature, which was never late')
  },
)

t.test('a backup of the first version is restored to the second', async (t) => {
  const { restore, restored, versionOf } = oldHome(t)
  const { vault, suspended } = await restore()
  t.match(suspended, { agents: 1 })
  t.match(vault.records.info('agent', 'agt_1'), { version: 2 })
  await assertContents(t, vault, 2)
  t.equal(versionOf(restored), 2)
})
