import t from 'tap'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { leaseNameOf } from '../../core/payments/leases.ts'
import * as rules from '../../core/payments/rules.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import { systemClock as clock } from '../../core/ports/clock.ts'
import { silentLog as log } from '../../core/ports/log.ts'
import type { Lease, Leases } from '../../core/ports/store/leases.ts'
import { startSettler, usdc } from '../../test/helpers/chains/evm/settler.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import type { Stack } from './open/openStack.ts'
import { startJobs } from './startJobs.ts'

t.test(
  'the account number of a payment that another process has found expired is used up by the one that signs',
  async (t) => {
    const { chain, settler: dead, another, pay, terms } = await startSettler(t)
    const store = openTestStore({ clock, storeClock: clock })
    const { ledger } = store
    const process = async (name: string, settler: Settler, leases: Leases) => {
      const lease = { current: (await leases.take(`process:${name}`, 60_000))! }
      const jobs = await startJobs(
        {
          ports: {
            payments: { isUnderWay: () => false, withhold: () => () => {} },
            purchases: store.purchases,
            clock,
          },
          store: { ledger, leases },
          chains: { assets: [usdc], settlers: [settler], settler: () => settler },
          notes: { tokenHash: () => 'hash' },
          lease,
        } as unknown as Stack,
        log,
        () => 900_000,
      )
      t.teardown(() => jobs.stop())
    }

    // A process stores what it has signed, and dies before it sends it.
    const { payment, identity } = await pay({ validBefore: String(Math.floor(Date.now() / 1_000) + 12) })
    const purchaseId = '0190b2a4-0000-7000-8000-000000000001'
    const lease: Lease = { id: 99, name: 'process:dead' }
    const claimed = await ledger.claim({
      ...identity,
      scheme: 'exact',
      lease: lease.id,
      purchaseId,
      payload: JSON.stringify(payment),
      linkId: 'link',
      sessionId: null,
      storeId: 'store',
      requestHash: 'h',
    })
    if (!claimed.won) throw new Error('the key is taken')
    const held = { row: claimed.row, purchaseId, lease: lease.id }
    await dead.settle(payment, terms, identity, async (attempt) => {
      await ledger.apply(rules.begin(held, attempt, null))
      return false
    })
    const [attempt] = await ledger.openAttempts(dead.id)
    const { settler: id, sequence } = attempt!
    await dead.close()
    const account = id.split(':').at(-1)!
    const usedUp = async () => Number(await chain.rpc<string>('eth_getTransactionCount', account, 'latest'))
    t.equal(await usedUp(), Number(sequence))

    const signs = another()
    const recovers: Leases = store.leases
    const neverRecovers: Leases = {
      ...recovers,
      take: async (name, ttlMs) => (name === 'recovery' ? undefined : recovers.take(name, ttlMs)),
    }
    await process('signs', signs, neverRecovers)
    await chain.advanceTime(50)
    await process('recovers', another(), recovers)
    await until(async () => (await ledger.find(identity.key))?.state === 'failed_final')
    await until(async () => (await usedUp()) === Number(sequence) + 1, 'its number to be used up')
    const next = await pay()
    t.match(await signs.settle(next.payment, terms, next.identity, async () => true), { status: 'settled' })
  },
)

t.test(
  'keys are leased one by one: whoever shares one with another list has the rest of its own',
  async (t) => {
    const { another } = await startSettler(t)
    const store = openTestStore({ clock, storeClock: clock })
    const [one, two, three] = [generatePrivateKey(), generatePrivateKey(), generatePrivateKey()]
    const start = async (name: string, privateKeys: readonly string[]) => {
      const settler = another({ privateKeys, needsStart: true })
      const lease = { current: (await store.leases.take(`process:${name}`, 60_000))! }
      const jobs = await startJobs(
        {
          ports: {
            payments: { isUnderWay: () => false, withhold: () => () => {} },
            purchases: store.purchases,
            clock,
          },
          store,
          chains: { assets: [usdc], settlers: [settler], settler: () => settler },
          notes: { tokenHash: () => 'hash' },
          lease,
        } as unknown as Stack,
        log,
        () => 900_000,
      )
      t.teardown(() => jobs.stop())
      const words = async () =>
        (await settler.diagnose()).filter((text) => /another process has the key/.test(text))
      return { jobs, settler, words }
    }
    const first = await start('first', [one, two])
    const second = await start('second', [two, three])
    t.strictSame(await first.words(), [])
    t.match((await second.words()).join(), privateKeyToAddress(two))
    const holderOf = async (settler: Settler, i: number) =>
      (await store.leases.holderOf(leaseNameOf(settler.keys![i]!.id)))?.id
    const [ofOne, ofTwo] = [await holderOf(first.settler, 0), await holderOf(first.settler, 1)]
    t.ok(ofOne !== undefined && ofTwo !== undefined && ofOne !== ofTwo, 'each key has a lease of its own')
    // A second process with the same list holds none of the keys: budgets are counted in one place.
    const third = await start('third', [two, one])
    t.equal(third.settler.id, first.settler.id)
    t.equal(await holderOf(first.settler, 0), ofOne)
    t.match(await third.settler.verify({} as never, {} as never, {} as never, { storeId: 's' }), {
      reason: 'settler_not_started',
    })
    await first.jobs.stop()
    await until(async () => (await third.words()).length + (await second.words()).length === 1)
    t.not(await holderOf(first.settler, 0), ofOne)
  },
)
