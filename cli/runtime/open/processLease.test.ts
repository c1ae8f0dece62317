import t from 'tap'
import { createSealer } from '../../../adapters/secrets/sealer.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { awaitSameSecret, processLeaseName } from './processLease.ts'

const [ours, theirs] = [1, 2].map((byte) => createSealer(new Uint8Array(32).fill(byte)))

t.test(
  'who has another secret than those that work on a store waits for their end, and gives up',
  async (t) => {
    const { leases } = openTestStore()
    const own = processLeaseName(ours!, 'a')
    const wait = (patienceMs: number) => awaitSameSecret(leases, ours!, own, silentLog, patienceMs)
    await leases.take(own, 60_000)
    await wait(0)
    const other = (await leases.take(processLeaseName(theirs!, 'b'), 60_000))!
    await t.rejects(wait(0), { message: /another secret uses this database/ })
    const waiting = wait(60_000)
    await leases.release(other)
    await waiting
  },
)

t.test('of two secrets that begin at once neither goes on', async (t) => {
  const { leases } = openTestStore()
  const begin = async (sealer: typeof ours, name: string) => {
    const own = processLeaseName(sealer!, name)
    await leases.take(own, 60_000)
    return awaitSameSecret(leases, sealer!, own, silentLog, 0)
  }
  for (const { status } of await Promise.allSettled([begin(ours, 'a'), begin(theirs, 'b')]))
    t.equal(status, 'rejected')
})

t.test('who has the secret of those that work is not kept out by others who wait in vain', async (t) => {
  const { leases } = openTestStore()
  const begin = async (sealer: typeof ours, name: string) => {
    const own = processLeaseName(sealer!, name)
    const lease = (await leases.take(own, 60_000))!
    await awaitSameSecret(leases, sealer!, own, silentLog, 0)
    return lease
  }
  const first = await begin(ours, 'a')
  // Restarted over and over by a supervisor, on two machines: one of them is always running.
  for (const name of ['b', 'c']) await t.rejects(begin(theirs, name))
  const second = await begin(ours, 'd')
  await t.rejects(begin(theirs, 'e'), 'nor do they begin by their number')
  await leases.release(first)
  await leases.release(second)
  await t.rejects(begin(ours, 'f'), /another secret/)
})
