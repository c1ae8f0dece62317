import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { watchCrashes, writeImage } from '../../test/helpers/vault/crashes.ts'
import { quickHasher } from '../../test/helpers/vault/quickHasher.ts'
import type { PaymentClaim } from '../effects/payment.ts'

// After the module above, which patches the file system.
const { silentLog } = await import('../../core/ports/log.ts')
const { pinnedAssets } = await import('../effects/assets.ts')
const { createVault } = await import('../storage/createVault.ts')
const { openVault } = await import('../storage/localVault.ts')
const { kdfFloor } = await import('../storage/password/kdf.ts')
const { ChargeChecks } = await import('./chargeChecks.ts')

const password = 'correct horse battery'
const usdc = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
const claim: PaymentClaim = {
  chain: 'base',
  asset: usdc,
  payer: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  payTo: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
  most: '1000000',
  nonce: '7',
  validBefore: '2000000000',
  facilitator: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
}

t.test('a kill or a power cut while something is given back leaves all of it, or nothing', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'vault-charges-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const home = join(folder, 'home')
  const { vault } = await createVault({ home, password, hasher: quickHasher, kdf: kdfFloor })
  t.teardown(() => vault.close())
  const proved = new Map<string, bigint>()
  const checks = new ChargeChecks({
    vault,
    enabled: ['base'],
    assets: pinnedAssets,
    log: silentLog,
    nameOf: () => 'shopper',
    chargeRpc: () => ({}) as never,
    chains: [
      {
        family: 'eip155',
        finalBlock: async () => ({ number: 9, seconds: 9 }),
        proveCharges: async (_rpc: unknown, claims: readonly { readonly claim: PaymentClaim }[]) =>
          claims.map(({ claim: { nonce } }) => {
            const charged = proved.get(nonce)
            return charged === undefined ? undefined : { charged, transaction: null }
          }),
      } as never,
    ],
  })
  t.teardown(() => checks.close())
  for (const nonce of ['1', '2', '3']) {
    const spends = [{ asset: 'usdc', amount: 1_000_000n, recipient: 'shop' }]
    const reserved = vault.budget.reserve({ id: nonce, agentId: 'agt_1', spends, limits: [] })
    if (!reserved.ok) throw new Error('there is no limit')
    checks.note(nonce, 'agt_1', { ...claim, nonce })
    await reserved.durable
    vault.budget.commit(nonce)
    proved.set(nonce, BigInt(nonce) * 100_000n)
  }
  // The commits are on disk with this entry.
  await vault.audit.append({ agent: 'owner', action: 'CONFIG', status: 'APPROVED' })
  const watched = watchCrashes(home, () => 0)
  const report = await checks.checkNow()
  watched.stop()
  t.equal(report.given_back.length, 3)
  t.match(vault.budget.used({ kind: 'vault' }, 'usdc'), { spent: 600_000n, givenBack: 2_400_000n })

  const states = new Set<number>()
  for (const { killed, powerCut } of watched.moments)
    for (const image of [killed, powerCut]) {
      const copy = join(mkdtempSync(join(tmpdir(), 'vault-charges-')), 'home')
      t.teardown(() => rmSync(join(copy, '..'), { recursive: true, force: true }))
      writeImage(copy, image)
      const left = await openVault({ home: copy, hasher: quickHasher })
      await left.unlock(password)
      const { entries } = await left.audit.query({ action: 'GIVE_BACK' })
      const { givenBack } = left.budget.used({ kind: 'vault' }, 'usdc')
      const logged = entries.reduce((sum, { amount }) => sum + Number(amount) * 1_000_000, 0)
      if (Number(givenBack) !== Math.round(logged) || left.budget.partial().length !== 3 - entries.length)
        t.fail(`${givenBack} given back, ${logged} in the log`)
      states.add(entries.length)
      await left.close()
    }
  t.ok(states.has(0), 'a stop before the first change leaves all of them open')
  t.ok(states.size > 1, 'a later stop leaves some of them given back')
})

t.test('a check does not keep the vault from locking, and writes nothing once it is locked', async (t) => {
  const home = join(t.testdir(), 'home')
  const { vault } = await createVault({ home, password, hasher: quickHasher, kdf: kdfFloor })
  t.teardown(() => vault.close())
  let prove = Promise.withResolvers<void>()
  const checks = new ChargeChecks({
    vault,
    enabled: ['base'],
    assets: pinnedAssets,
    log: silentLog,
    nameOf: () => undefined,
    chargeRpc: () => ({}) as never,
    chains: [
      {
        family: 'eip155',
        finalBlock: async () => ({ number: 9, seconds: 9 }),
        async proveCharges() {
          await prove.promise
          return [{ charged: 0n, transaction: null }]
        },
      } as never,
    ],
  })
  t.teardown(() => checks.close())
  const pay = async (id: string) => {
    const spends = [{ asset: 'usdc', amount: 1_000_000n }]
    const reserved = vault.budget.reserve({ id, agentId: 'agt_1', spends, limits: [] })
    if (!reserved.ok) throw new Error('there is no limit')
    checks.note(id, 'agt_1', claim)
    await reserved.durable
    vault.budget.commit(id)
  }
  await pay('a')
  const before = vault.state.idleLocksAtMs
  const checking = checks.checkNow()
  await vault.lock()
  prove.resolve()
  t.strictSame((await checking).given_back, [])
  await vault.unlock(password)
  t.match(vault.budget.used({ kind: 'vault' }, 'usdc'), { spent: 1_000_000n, givenBack: 0n })

  prove = Promise.withResolvers<void>()
  prove.resolve()
  const idle = vault.state.idleLocksAtMs
  t.ok(before !== undefined && idle !== undefined)
  t.equal((await checks.checkNow()).given_back.length, 1)
  t.equal(vault.state.idleLocksAtMs, idle)
  t.match((await vault.audit.query({ action: 'GIVE_BACK' })).entries, [{ agent: 'vault', amount: '1' }])
})
