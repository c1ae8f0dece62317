import t from 'tap'
import { leaseNameOf } from '../../../core/payments/leases.ts'
import type { Settler, SettlingKey } from '../../../core/ports/chains/settler.ts'
import { silentLog as log } from '../../../core/ports/log.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { createLeaseHolder } from './leaseHolder.ts'

t.test(
  'a key that is taken anew while its account is still asked for is not asked for beside that',
  async (t) => {
    let nowMs = 1_000
    const clock = { now: () => nowMs }
    const store = openTestStore({ clock, storeClock: clock })
    t.teardown(() => store.close())
    const { ledger, leases } = store
    const responses: ((key: SettlingKey) => void)[] = []
    let starts = 0
    const key = {
      id: 'evm:eip155:84532:0xabc',
      start: async () => void starts++,
      readState: () => new Promise<SettlingKey>((resolve) => responses.push(resolve)),
    }
    const settler = { ...key, network: 'eip155:84532', keys: [key] } as unknown as Settler
    const holder = createLeaseHolder(settler, { ledger, leases, keys: undefined, log })
    t.teardown(() => holder.stop())
    /** Another process has held it in the meantime. */
    const takeAgain = async () => {
      nowMs += 60_000
      await leases.release((await leases.take(leaseNameOf(key.id), 1_000))!)
      await holder.begin()
    }
    await takeAgain()
    await takeAgain()
    t.equal(starts, 2)
    t.equal(responses.length, 1, 'one question at a time')
    responses[0]!({ address: '0xabc', balance: 1n, paymentsLeft: 1n, inFlight: 0, nonce: null })
    await new Promise(setImmediate)
    await takeAgain()
    t.equal(responses.length, 2, 'and it is asked anew once that one is over')
  },
)
