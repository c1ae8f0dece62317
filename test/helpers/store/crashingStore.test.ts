import t from 'tap'
import { change, claimed, keyOf, sampleClaim, testClock } from '../../contracts/samples.ts'
import { openCrashingStore } from './crashingStore.ts'

t.test('a power cut loses what was visible and not flushed since, and nothing else', async (t) => {
  const store = await openCrashingStore(testClock(), testClock())
  t.teardown(() => store.close())
  const { ledger, leases } = store
  const [kept, lost] = [sampleClaim('kept'), sampleClaim('lost')]
  const row = await claimed(store, kept)
  await ledger.apply(change(kept, row, 'claimed', 'settling', { durability: 'flushed', dueInMs: 0 }))
  const lease = (await leases.take('recovery', 1_000))!
  await ledger.apply(change(kept, row, 'settling', 'settled', { takenBy: null }))
  await claimed(store, lost)
  store.powerCut()

  t.match(await ledger.find(kept.key), { state: 'settling', lease: kept.lease })
  t.equal((await ledger.due({ states: ['settling'], limit: 9 })).length, 1)
  t.equal(await ledger.find(lost.key), undefined)
  t.equal(await leases.renew(lease, 1_000), true, 'a lease that was told is kept')
  const again = await claimed(store, lost)
  t.ok(again > row)
  store.flush()
  store.powerCut()
  t.match(await ledger.find(keyOf('lost')), { state: 'claimed', row: again })
})
