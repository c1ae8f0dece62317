import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import type { Vault } from '../ports/vault.ts'
import { ManualClock } from '../testing/manualClock.ts'
import { quickHasher } from '../testing/quickHasher.ts'
import { createVault } from './createVault.ts'
import { openVault } from './openVault.ts'
import { kdfFloor } from './password/kdf.ts'
import { restoreVault } from './restoreVault.ts'

const passwords = ['correct horse battery', 'another long password']
const parts = ['vault.json', 'records.log', 'budget.log', 'audit', 'audit.head']
const spent = { agent: 'shopper', action: 'SIGN', status: 'AUTO_APPROVED' } as const

/** Every choice of parts but none and all of them. */
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
      rmSync(join(mixed, name), { recursive: true })
      cpSync(join(older, name), join(mixed, name), { recursive: true })
    }
    return { ...common, home: mixed }
  }
  return { folder, home, older, vault: again, common, mix }
}

/** The process that a copied lock names is this one, which runs. */
function rmLocks(home: string): void {
  for (const name of readdirSync(home)) if (name.startsWith('lock.')) rmSync(join(home, name))
}

/** What a vault says of its files when it is opened with whichever of the passwords fits. */
async function saidOn(opening: Parameters<typeof openVault>[0]): Promise<string | undefined> {
  rmLocks(opening.home)
  const vault = await openVault(opening)
  try {
    // The second password fits a newer header; it is tried first, since a wrong one makes wait.
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
  t.equal(await saidOn(mix(home, older, [])), undefined, 'the folder as it was left')
  t.equal(await saidOn(mix(home, older, parts)), undefined, 'an older copy of all of it')
  for (const names of mixtures) {
    const said = await saidOn(mix(home, older, names))
    t.match(said, /older|earlier|missing/, `${names.join(' and ')}: ${said}`)
  }
  rmSync(folder, { recursive: true })
})

t.test('it stays said however often the vault is opened, and the newest file put back ends it', async (t) => {
  const { folder, home, older, vault, mix } = await twoAges()
  await vault.close()
  const opening = mix(home, older, ['records.log'])
  for (let i = 0; i < 8; i++)
    t.match(await saidOn(opening), /records\.log.*Put the newest records\.log back/s)
  cpSync(join(home, 'records.log'), join(opening.home, 'records.log'))
  t.equal(await saidOn(opening), undefined)
  rmSync(folder, { recursive: true })
})

t.test(
  'after a crash right behind an answer, older records, budgets and key file are said; the crash itself is not',
  async (t) => {
    const { folder, home, older, vault, mix } = await twoAges()
    // What a kill leaves: the files as they are while the vault runs.
    const killed = join(folder, 'killed')
    cpSync(home, killed, { recursive: true })
    t.equal(await saidOn(mix(killed, older, [])), undefined)
    const withoutLog = parts.filter((part) => part !== 'audit')
    for (const names of [['vault.json'], ['records.log'], ['budget.log'], withoutLog])
      t.match(await saidOn(mix(killed, older, names)), /older|earlier/, names.join(' and '))
    await vault.close()
    rmSync(folder, { recursive: true })
  },
)

t.test('soon after an answer each of two files alone says that the rest is older', async (t) => {
  const { folder, home, older, vault, mix } = await twoAges()
  for (const newest of ['records.log', 'budget.log']) {
    const killed = join(folder, 'killed')
    const names = parts.filter((part) => part !== newest)
    for (let said: string | undefined; said === undefined; await wait(50)) {
      rmSync(killed, { recursive: true, force: true })
      cpSync(home, killed, { recursive: true })
      said = await saidOn(mix(killed, older, names))
    }
    t.pass(`${newest} says that all the others are older`)
  }
  await vault.close()
  rmSync(folder, { recursive: true })
})

t.test('a new password of a locked vault is known to its other files, too', async (t) => {
  const { folder, home, older, vault, mix } = await twoAges(async () => {})
  await vault.lock()
  await vault.changePassword(passwords[0]!, passwords[1]!)
  await vault.close()
  t.match(await saidOn(mix(home, older, ['vault.json'])), /vault\.json.*older|earlier/)
  t.equal(await saidOn(mix(home, older, [])), undefined)
  rmSync(folder, { recursive: true })
})

t.test('records or budgets from before a restore have no place in the restored folder', async (t) => {
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
  t.equal(await saidOn(mix(restored, home, [])), undefined)
  for (const name of ['records.log', 'budget.log'])
    t.match(await saidOn(mix(restored, home, [name])), new RegExp(`${name} .* one folder`), name)
  rmSync(folder, { recursive: true })
})
