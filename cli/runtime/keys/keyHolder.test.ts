import t from 'tap'
import { createMemory } from '../../../adapters/memory/store/memory.ts'
import { openMemory } from '../../../adapters/memory/store/openMemory.ts'
import { leaseNameOf } from '../../../core/payments/keyLease.ts'
import type { Settler, SettlingKey } from '../../../core/ports/chains/settler.ts'
import { silentLog as log } from '../../../core/ports/log.ts'
import { createKeyHolder } from './keyHolder.ts'

t.test(
  'a key that is taken anew while its account is still asked for is not asked for beside that',
  async (t) => {
    let nowMs = 1_000
    const clock = { now: () => nowMs }
    const store = openMemory({ memory: createMemory(clock), clock })
    t.teardown(() => store.close())
    const { books, leases } = store
    const answers: ((key: SettlingKey) => void)[] = []
    let starts = 0
    const key = {
      id: 'evm:eip155:84532:0xabc',
      start: async () => void starts++,
      look: () => new Promise<SettlingKey>((resolve) => answers.push(resolve)),
    }
    const settler = { ...key, network: 'eip155:84532', keys: [key] } as unknown as Settler
    const holder = createKeyHolder(settler, { books, leases, keys: undefined, log })
    /** Another process has had it meanwhile. */
    const takeAnew = async () => {
      nowMs += 60_000
      await leases.release((await leases.take(leaseNameOf(key.id), 1_000))!)
      await holder.begin()
    }
    await takeAnew()
    await takeAnew()
    t.equal(starts, 2)
    t.equal(answers.length, 1, 'one question at a time')
    answers[0]!({ address: '0xabc', balance: 1n, paymentsLeft: 1n, inFlight: 0, nonce: null })
    await new Promise(setImmediate)
    await takeAnew()
    t.equal(answers.length, 2, 'and it is asked anew once that one is over')
  },
)
