import t from 'tap'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import { leaseOfKey } from './leases.ts'

t.test('one process at a time has a key, and one that stood still says so before it has asked', async (t) => {
  let nowMs = 1_000_000
  const { leases } = openTestStore({ storeClock: { now: () => nowMs } })
  const [a, b] = [leaseOfKey(leases, 'evm:x', () => nowMs), leaseOfKey(leases, 'evm:x', () => nowMs)]
  t.notOk(a.isHeld)
  const first = (await a.hold())!
  t.ok(a.isHeld)
  t.equal(await b.hold(), undefined)
  t.notOk(b.isHeld)

  nowMs += 10_000
  t.equal((await a.hold())!.id, first.id, 'kept')
  nowMs += 15_000
  t.notOk(a.isHeld, 'it was not held anew in time')
  t.equal((await a.hold())!.id, first.id, 'nobody else had it meanwhile')
  t.ok(a.isHeld)

  nowMs += 15_000
  const second = (await b.hold())!
  t.ok(second.id > first.id)
  t.equal(await a.hold(), undefined, 'lost')
  t.notOk(a.isHeld)
  await a.release()
  t.equal((await b.hold())!.id, second.id, 'whoever lost it gives nothing back')

  await b.release()
  t.notOk(b.isHeld)
  const third = (await a.hold())!
  t.ok(third.id > second.id, 'another lease: what others signed meanwhile has to be taken up')
})
