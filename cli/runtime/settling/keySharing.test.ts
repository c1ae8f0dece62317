import type { Test } from 'tap'
import t from 'tap'
import { keyIsShared, notStarted } from '../../../adapters/chains/refusals.ts'
import { leaseNameOf } from '../../../core/payments/leases.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import { silentLog as log } from '../../../core/ports/log.ts'
import type { Leases } from '../../../core/ports/store/leases.ts'
import type { Mailbox } from '../../../core/ports/store/mailbox.ts'
import { createScriptedSettler, testAsset, testNetwork, testPayTo } from '../../../test/helpers/settler.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { KeySharing } from './keySharing.ts'

const payment = { x402Version: 2, scheme: 'exact', network: testNetwork, payload: {} } as const
const terms = {
  scheme: 'exact',
  network: testNetwork,
  amount: '1',
  asset: testAsset,
  payTo: testPayTo,
  maxTimeoutSeconds: 300,
  extra: {},
}
const identity = {
  key: 'ab',
  network: testNetwork,
  asset: testAsset,
  payer: '0x2',
  nonce: 'n',
  payTo: testPayTo,
  amountAtomic: 1n,
  validBeforeMs: Date.now() + 300_000,
}

/** Two processes of one database, of which the first holds the settler's key. */
async function startTwo(t: Test, leases: Leases, mailbox: Mailbox) {
  // Messages alone do not keep a process running. A gateway has its sockets.
  const running = setInterval(() => {}, 60_000)
  t.teardown(() => clearInterval(running))
  const process = async (name: string) => {
    const lease = { current: (await leases.take(`process:${name}`, 60_000))! }
    const transacted: unknown[] = []
    const transact: NonNullable<Settler['transact']> = async (call) => {
      transacted.push(call)
      return { status: 'done', transaction: '0xa' }
    }
    const settler = Object.assign(createScriptedSettler(), { isExclusive: true as const, transact })
    const keys = new KeySharing({ mailbox, leases, lease, log })
    t.teardown(() => keys.close())
    return { settler, transacted, keys, wrapped: keys.wrap(settler) }
  }
  const [holder, asker] = [await process('holder'), await process('asker')]
  const key = (await leases.take(leaseNameOf(holder.settler.id), 60_000))!
  holder.keys.holds(holder.settler, [key], () => true)
  return { holder, asker }
}

t.test('what comes twice by letters is verified, settled and stored once', async (t) => {
  const { leases, mailbox } = openTestStore()
  const twice: Mailbox = { ...mailbox, post: (posted) => mailbox.post(posted.flatMap((one) => [one, one])) }
  const { holder, asker } = await startTwo(t, leases, twice)
  const verified = await asker.wrapped.verify(payment, terms, identity, { storeId: 'store' })
  t.ok(verified.ok)
  if (!verified.ok) return
  t.equal(holder.settler.held, 1)
  let stored = 0
  const store = async () => ++stored > 0
  const outcome = await asker.wrapped.settle(payment, terms, identity, store, verified.hold)
  t.match(outcome, { status: 'settled' })
  // Every repeated message has been received by the time this one gets a response.
  const again = await asker.wrapped.verify(payment, terms, identity, { storeId: 'store' })
  if (again.ok) again.hold.release()
  t.match(holder.settler.calls, { verify: 2, settle: 1 })
  t.equal(stored, 1)
})

t.test('a contract call is sent once, by the holder of the key', async (t) => {
  const { leases, mailbox } = openTestStore()
  const twice: Mailbox = { ...mailbox, post: (posted) => mailbox.post(posted.flatMap((one) => [one, one])) }
  const { holder, asker } = await startTwo(t, leases, twice)
  const call = { to: testAsset, data: '0x12' }
  for (const { wrapped } of [asker, asker, holder])
    t.match(await wrapped.transact!(call, null), { status: 'done', transaction: '0xa' })
  t.same(holder.transacted, [call, call, call])
  t.same(asker.transacted, [])
})

t.test('who asks the holder of a key knows from its refusal that every payment is refused', async (t) => {
  const { leases, mailbox } = openTestStore()
  const { holder, asker } = await startTwo(t, leases, mailbox)
  const verify = () => asker.wrapped.verify(payment, terms, identity, { storeId: 'store' })
  t.equal(asker.wrapped.refusesAll?.(), undefined)
  holder.settler.verifyWith = async () => keyIsShared
  t.match(await verify(), keyIsShared)
  t.match(asker.wrapped.refusesAll?.(), keyIsShared, 'readiness says so')
  holder.settler.verifyWith = async () => notStarted
  await verify()
  t.match(asker.wrapped.refusesAll?.(), keyIsShared, 'a refusal for another reason says nothing of the key')
  holder.settler.verifyWith = async () => ({ ok: true })
  const verified = await verify()
  if (verified.ok) verified.hold.release()
  t.equal(asker.wrapped.refusesAll?.(), undefined)
})
