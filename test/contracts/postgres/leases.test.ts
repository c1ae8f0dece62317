import t from 'tap'
import { createServerClock } from '../../../adapters/store/postgres/connect.ts'
import { gasBookContract } from '../gasBook.ts'
import { leasesContract } from '../leases.ts'
import { claimed, sampleClaim, testClock } from '../samples.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('leases in PostgreSQL', { skip }, async (t) => leasesContract(t, makePostgres))
t.test("a server's clock that is set takes nothing from who lives", { skip }, async (t) => {
  for (const setByMs of [-3_600_000, -8_000, 16_000, 3_600_000]) {
    let machineMs = 0
    const storeClock = testClock()
    const open = (schema?: string) =>
      makePostgres(t, {
        ...(schema !== undefined && { schema }),
        ...{ storeClock, serverClock: createServerClock(() => machineMs) },
      })
    const here = await open()
    const there = await open(here.schema)
    const ours = (await here.leases.take('process:a', 10_000))!
    await claimed(here, sampleClaim('k1', { lease: ours.id }))
    const theirs = (await there.leases.take('process:b', 10_000))!
    const adopted = () => there.ledger.adopt(theirs, ['claimed'], 10)
    const later = async (ms: number, living = [here, there]) => {
      machineMs += ms
      storeClock.nowMs += ms
      if (living.includes(here)) t.ok(await here.leases.renew(ours, 10_000))
      t.ok(await there.leases.renew(theirs, 10_000))
    }
    for (let i = 0; i < 4; i++) await later(2_000)
    storeClock.nowMs += setByMs
    for (let i = 0; i < 6; i++) {
      t.equal(await adopted(), 0, `${setByMs} ms, ${i * 2} s later`)
      t.equal(await there.leases.take('process:a', 10_000), undefined)
      t.ok(await there.leases.take(`process:new${i}`, 10_000), 'a free name is given all the same')
      await later(2_000)
    }
    for (let i = 0; i < 8; i++) await later(2_000, [there])
    t.equal(await adopted(), 1, 'and who died after it is found')
  }
})

t.test('the gas of stores in PostgreSQL', { skip }, async (t) => {
  const { gas, schema } = await makePostgres(t)
  await gasBookContract(t, gas, async () => (await makePostgres(t, { schema })).gas)
})
