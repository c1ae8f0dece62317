import t from 'tap'
import { startSettler, usdc } from '../../adapters/chains/evm/settler.fixture.ts'
import { createMemory } from '../../adapters/memory/store/memory.ts'
import { openMemory } from '../../adapters/memory/store/openMemory.ts'
import * as rules from '../../core/payments/rules.ts'
import { systemClock as clock } from '../../core/ports/clock.ts'
import type { Lease, Leases } from '../../core/ports/leases.ts'
import { silentLog as log } from '../../core/ports/log.ts'
import type { Settler } from '../../core/ports/settler.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import type { Stack } from './openStack.ts'
import { startJobs } from './startJobs.ts'

t.test(
  'the account number of a payment that another process has found expired is used up by the one that signs',
  async (t) => {
    const { chain, settler: dead, another, pay, terms } = await startSettler(t)
    const store = openMemory({ memory: createMemory(clock), clock })
    const { books } = store
    const process = async (name: string, settler: Settler, leases: Leases) => {
      const lease = { current: (await leases.take(`process:${name}`, 60_000))! }
      const jobs = await startJobs(
        {
          ports: { payments: { isUnderWay: () => false }, purchases: store.purchases, clock },
          store: { books, leases },
          chains: { assets: [usdc], settlers: [settler], settler: () => settler },
          notes: { tokenHash: () => 'hash' },
          lease,
        } as unknown as Stack,
        log,
      )
      t.teardown(() => jobs.stop())
    }

    // A process stores what it has signed, and dies before it sends it.
    const { payment, identity } = await pay({ validBefore: String(Math.floor(Date.now() / 1_000) + 12) })
    const purchaseId = '0190b2a4-0000-7000-8000-000000000001'
    const lease: Lease = { id: 99, name: 'process:dead' }
    const claimed = await books.claim({
      ...{ ...identity, scheme: 'exact', lease: lease.id, purchaseId, payload: JSON.stringify(payment) },
      ...{ linkId: 'link', sessionId: null, storeId: 'store', requestHash: 'h' },
    })
    if (!claimed.won) throw new Error('the key is taken')
    const held = { row: claimed.row, purchaseId, lease: lease.id }
    await dead.settle(payment, terms, identity, async (attempt) => {
      await books.apply(rules.begin(held, attempt, null))
      return false
    })
    const [attempt] = await books.openAttempts(dead.id)
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
    await until(async () => (await books.find(identity.key))?.state === 'failed_final')
    await until(async () => (await usedUp()) === Number(sequence) + 1, 'its number to be used up')
    const next = await pay()
    t.match(await signs.settle(next.payment, terms, next.identity, async () => true), { status: 'settled' })
  },
)
