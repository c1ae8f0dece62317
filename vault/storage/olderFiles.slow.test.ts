import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import { quickHasher } from '../../test/helpers/vault/quickHasher.ts'
import type { Vault } from '../ports/vault.ts'
import { createVault } from './createVault.ts'
import { openVault } from './localVault.ts'
import { kdfFloor } from './password/kdf.ts'
import { restoreVault } from './restoreVault.ts'

const passwords = ['correct horse battery', 'another long password']
const parts = ['vault.json', 'vault.1.db', 'audit.head']
const spent = { agent: 'shopper', action: 'SIGN', status: 'AUTO_APPROVED' } as const

/** Every selection of parts except none and all of them. */
const mixtures = Array.from({ length: 2 ** parts.length - 2 }, (_, i) =>
  parts.filter((_part, bit) => ((i + 1) >> bit) & 1),
)

async function reserve(vault: Vault, id: string): Promise<void> {
  const reserved = vault.budget.reserve({
    id,
    spends: [{ asset: 'usdc', amount: 40n, recipient: 'shop' }],
    agentId: 'agt_1',
    limits: [],
  })
  t.ok(reserved.ok)
  if (reserved.ok) await reserved.durable
}

/** A vault's folder before and after a revocation, a signature and a new password. */
async function twoAges(change = async (vault: Vault) => vault.changePassword(passwords[0]!, passwords[1]!)) {
  const folder = mkdtempSync(join(tmpdir(), 'vault-ages-'))
  const home = join(folder, 'home')
  const common = { home, clock: new ManualClock(), hasher: quickHasher }
  const { vault } = await createVault({ ...common, password: passwords[0]!, kdf: kdfFloor })
  await vault.records.putJson('agent', 'agt_1', { revokedAt: null })
  await vault.audit.append(spent)
  await vault.close()
  const older = join(folder, 'older')
  cpSync(home, older, { recursive: true })
  const again = await openVault(common)
  await again.unlock(passwords[0]!)
  await again.records.putJson('agent', 'agt_1', { revokedAt: 'now' })
  await reserve(again, 'one')
  await change(again)
  await again.audit.append(spent)
  const mixed = join(folder, 'mixed')
  const mix = (from: string, older: string, names: readonly string[]) => {
    rmSync(mixed, { recursive: true, force: true })
    cpSync(from, mixed, { recursive: true })
    for (const name of names) {
      rmSync(join(mixed, `${name}-wal`), { force: true })
      cpSync(join(older, name), join(mixed, name))
    }
    return { ...common, home: mixed }
  }
  return { folder, home, older, vault: again, common, mix }
}

/** The process that a copied lock names is this one, which is running. */
function rmLocks(home: string): void {
  for (const name of readdirSync(home)) if (name.startsWith('lock.')) rmSync(join(home, name))
}

/** What a vault reports about its files when it is opened with the password that fits. */
async function openingError(opening: Parameters<typeof openVault>[0]): Promise<string | undefined> {
  rmLocks(opening.home)
  const vault = await openVault(opening)
  try {
    // The second password fits a newer header; it is tried first, because a wrong password causes a wait.
    for (const password of passwords.toReversed()) {
      const refusal = await vault.unlock(password).then(
        () => undefined,
        (error) => error,
      )
      if (refusal?.code === 'BAD_PASSWORD' || refusal?.code === 'TOO_MANY_ATTEMPTS') {
        ;(opening.clock as ManualClock).pass(600_000)
        continue
      }
      if (refusal !== undefined) return `${refusal.code}: ${refusal.message}`
      const { ok, reason } = await vault.audit.verify()
      return vault.state.auditDamage ?? (ok ? undefined : reason)
    }
    throw new Error('no password fits')
  } finally {
    await vault.close()
  }
}

t.test('each part of a folder that is older than the others is said, alone and with others', async (t) => {
  const { folder, home, older, vault, mix } = await twoAges()
  await vault.close()
  t.equal(await openingError(mix(home, older, [])), undefined, 'the folder as it was left')
  t.equal(await openingError(mix(home, older, parts)), undefined, 'an older copy of all of it')
  for (const names of mixtures) {
    const result = await openingError(mix(home, older, names))
    t.match(result, /older|earlier|missing/, `${names.join(' and ')}: ${result}`)
  }
  rmSync(folder, { recursive: true })
})

t.test('it stays said however often the vault is opened, and the newest file put back ends it', async (t) => {
  const { folder, home, older, vault, mix } = await twoAges()
  await vault.close()
  const opening = mix(home, older, ['vault.1.db'])
  for (let i = 0; i < 8; i++)
    t.match(await openingError(opening), /vault\.1\.db.*Put the newest vault\.1\.db back/s)
  cpSync(join(home, 'vault.1.db'), join(opening.home, 'vault.1.db'))
  t.equal(await openingError(opening), undefined)
  rmSync(folder, { recursive: true })
})

t.test(
  'after a crash right behind an answer, an older database and an older key file are said; the crash itself is not',
  async (t) => {
    const { folder, home, older, vault, mix } = await twoAges()
    // The state after a kill: the files as they are while the vault runs.
    const killed = join(folder, 'killed')
    cpSync(home, killed, { recursive: true })
    t.equal(await openingError(mix(killed, older, [])), undefined)
    for (const names of [['vault.json'], ['vault.1.db'], ['vault.json', 'audit.head']])
      t.match(await openingError(mix(killed, older, names)), /older|earlier/, names.join(' and '))
    await vault.close()
    rmSync(folder, { recursive: true })
  },
)

t.test('soon after an answer the head alone says that the rest is older', async (t) => {
  const { folder, home, older, vault, mix } = await twoAges()
  const killed = join(folder, 'killed')
  for (let result: string | undefined; result === undefined; await wait(50)) {
    rmSync(killed, { recursive: true, force: true })
    cpSync(home, killed, { recursive: true })
    result = await openingError(mix(killed, older, ['vault.json', 'vault.1.db']))
  }
  t.pass('the head says that all the others are older')
  await vault.close()
  rmSync(folder, { recursive: true })
})

t.test('a new password of a locked vault is known to its other files, too', async (t) => {
  const { folder, home, older, vault, mix } = await twoAges(async () => {})
  await vault.lock()
  await vault.changePassword(passwords[0]!, passwords[1]!)
  await vault.close()
  t.match(await openingError(mix(home, older, ['vault.json'])), /vault\.json.*older|earlier/)
  t.equal(await openingError(mix(home, older, [])), undefined)
  rmSync(folder, { recursive: true })
})

t.test('a database or a head from before a restore has no place in the restored folder', async (t) => {
  const { folder, home, vault, common, mix } = await twoAges()
  const file = join(folder, 'backup')
  await vault.backup(file)
  for (let i = 0; i < 20; i++) await reserve(vault, `more ${i}`)
  for (let i = 0; i < 20; i++) await vault.records.put('value', 'identity.name', `${i}`)
  await vault.close()
  const restored = join(folder, 'restored')
  const made = await restoreVault({ ...common, home: restored, file, password: passwords[1]! })
  await made.vault.close()
  t.notOk(existsSync(join(restored, 'owner.sock')))
  t.equal(await openingError(mix(restored, home, [])), undefined)
  for (const name of ['vault.1.db', 'audit.head'])
    t.match(await openingError(mix(restored, home, [name])), /do not belong together/, name)
  rmSync(folder, { recursive: true })
})
