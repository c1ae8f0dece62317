import { join } from 'node:path'
import t from 'tap'
import { Budgets } from '../../../adapters/chains/budgets.ts'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'
import { gasBookContract } from '../gasBook.ts'

const network = 'eip155:8453'

t.test('the gas of stores in SQLite', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const open = async () => {
    const store = await openSqlite({ path, clock: systemClock, log: silentLog })
    t.teardown(() => store.close())
    return store.gas
  }
  await gasBookContract(t, await open(), open)
})

t.test('a gateway that is killed over and over gives a store no second day', async (t) => {
  const store = await openSqlite({ path: ':memory:', clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  const most = 100_000n
  const limits = {
    maxInFlight: 10,
    maxInFlightPerPayer: 10,
    failureBudget: { failures: 10, windowMs: 1_000 },
    maxGasPerStoreAndDay: most,
  }
  const writing = new Set<Promise<bigint>>()
  const gasBook: GasBook = {
    read: store.gas.read,
    add(...entry) {
      const written = store.gas.add(...entry).finally(() => writing.delete(written))
      writing.add(written)
      return written
    },
  }
  let spent = 0n
  let refused = 0
  for (let process = 0; process < 30; process++) {
    const budgets = new Budgets({ ...limits, network, gasBook })
    await budgets.start()
    for (let i = 0; i < 5; i++) {
      const flight = budgets.take({ ...identity, key: `${process}-${i}` }, 'store')
      if (typeof flight === 'string' || flight.reserve(1_000n) !== undefined) {
        refused++
        if (typeof flight !== 'string') flight.release()
        continue
      }
      flight.begin()
      flight.end({ status: 'settled', transaction: '0x', event: '0', block: 1, chargedAtomic: 1n })
      spent += 1_000n
    }
    // What was on its way to the disk gets there: a kill does not take back what the writer has.
    while (writing.size > 0) await Promise.all(writing)
  }
  t.ok(spent <= most, `${spent} spent`)
  t.ok(spent > (most * 9n) / 10n, 'and what is written ahead is little')
  t.ok(refused > 0)
})

const identity: PaymentIdentity = {
  key: '',
  network,
  asset: 'usdc',
  payer: 'payer',
  nonce: '1',
  payTo: 'seller',
  amountAtomic: 1n,
  validBeforeMs: 1e15,
}
