import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { type Container, hasContainers, startContainer } from '../../test/helpers/vault/containers.ts'
import { quickHasher } from '../../test/helpers/vault/quickHasher.ts'
import { createVault } from './createVault.ts'
import { openVault } from './localVault.ts'
import { kdfFloor, type PasswordHasher } from './password/kdf.ts'

const password = 'correct horse battery'
/** Each takes over from one that took over itself, twice after a pause; a takeover waits for some ten seconds. */
const ROUNDS = 6
/** Each process spends at least three, so the last ones find nothing left of the day. */
const DAY_LIMIT = 12
/** Ten missed heartbeats of a second, the start of a process, and a machine that is busy with other tests. */
const TAKEOVER_MS = 25_000

/** Opens the vault as soon as it is free and spends one unit of the day's limit every 50 ms. */
const holder = (home: string): string => `
  const { openVault } = await import(${JSON.stringify(import.meta.resolve('./localVault.ts'))})
  const { quickHasher } = await import(${JSON.stringify(import.meta.resolve('../../test/helpers/vault/quickHasher.ts'))})
  const { setTimeout: wait } = await import('node:timers/promises')
  let vault
  while (vault === undefined)
    vault = await openVault({ home: ${JSON.stringify(home)}, hasher: quickHasher }).catch((error) => {
      if (error.code !== 'VAULT_IN_USE') throw error
      return wait(100)
    })
  await vault.unlock(${JSON.stringify(password)})
  console.log('open')
  const limits = [{ subject: { kind: 'vault' }, asset: 'usdc', perDay: ${DAY_LIMIT}n }]
  for (let i = 0; ; i++) {
    try {
      const spends = [{ asset: 'usdc', amount: 1n, recipient: 'shop' }]
      const id = process.hrtime.bigint() + '-' + i
      const reserved = vault.budget.reserve({ id, spends, agentId: 'agt_1', limits })
      if (reserved.ok) await reserved.durable
      await vault.records.put('value', 'identity.name', id)
      console.log(reserved.ok ? 'spent' : 'alive')
    } catch (error) {
      console.log(error.code)
      break
    }
    await wait(i < 2 ? 50 : 300)
  }
  setInterval(() => {}, 1_000)
`

const count = (container: Container, text: string): number =>
  container.lines.filter((line) => line.text === text).length

async function untilOpen(container: Container, withinMs: number): Promise<boolean> {
  const endMs = performance.now() + withinMs
  while (performance.now() < endMs) {
    if (count(container, 'open') > 0 && container.lines.length > 3) return true
    await wait(50)
  }
  return false
}

t.test(
  'two containers on one folder, killed or paused in turn, are one vault with one limit a day',
  { skip: !hasContainers && 'this machine makes no containers' },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'vault-containers-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const home = join(folder, 'home')
    const { vault } = await createVault({ home, password, hasher: quickHasher, kdf: kdfFloor })
    await vault.close()

    const all: Container[] = []
    t.teardown(() => Promise.all(all.map((one) => one.kill())))
    const start = (): Container => {
      const container = startContainer(folder, `boot-${all.length}`, holder(home))
      all.push(container)
      return container
    }
    let live = start()
    t.ok(await untilOpen(live, TAKEOVER_MS), 'the first one opens')
    for (let round = 0; round < ROUNDS; round++) {
      const next = start()
      await wait(1_500)
      t.notOk(count(next, 'open'), `round ${round}: the second one waits for the first`)
      const isPaused = round % 3 === 2
      if (isPaused) live.pause()
      else await live.kill()
      const endedAtMs = performance.now()
      t.ok(await untilOpen(next, TAKEOVER_MS), `round ${round}: the successor opens`)
      const opened = next.lines.find(({ text }) => text === 'open')!
      t.ok(opened.atMs > endedAtMs, 'not before the other ended')
      if (isPaused) {
        const before = count(live, 'spent') + count(live, 'alive')
        live.resume()
        await wait(1_500)
        t.equal(count(live, 'spent') + count(live, 'alive'), before, 'the paused one does nothing any more')
        t.match(live.lines.at(-1)?.text, /^VAULT_(?:IN_USE|LOCKED)$/)
        await live.kill()
      }
      live = next
    }
    await live.kill()
    const spent = all.reduce((sum, one) => sum + count(one, 'spent'), 0)
    t.ok(spent <= DAY_LIMIT, `${spent} of ${DAY_LIMIT} spent`)

    const last = await openVault({ home, hasher: quickHasher })
    await last.unlock(password)
    t.match(last.budget.used({ kind: 'vault' }, 'usdc'), { spent: 0n, reserved: BigInt(DAY_LIMIT) })
    t.match(await last.audit.verify(), { ok: true })
    await last.close()
  },
)

t.test('a password that is changed while another process takes the vault stays as it was', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'vault-containers-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const home = join(folder, 'home')
  const next = 'another long password'
  // The lock is lost while the new password is hashed, as if this process had paused there.
  const hash: PasswordHasher['hash'] = async (text, ...rest) => {
    if (text === next)
      for (const name of readdirSync(home)) if (name.startsWith('lock.')) rmSync(join(home, name))
    return await quickHasher.hash(text, ...rest)
  }
  const { vault } = await createVault({ home, password, hasher: { hash }, kdf: kdfFloor })
  await t.rejects(vault.changePassword(password, next), {
    code: 'VAULT_IN_USE',
    message: /was not performed/,
  })
  await vault.close()
  const again = await openVault({ home, hasher: quickHasher })
  await again.unlock(password)
  t.match(await again.audit.verify(), { ok: true })
  await again.close()
})
