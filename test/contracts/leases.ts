import fc from 'fast-check'
import type { Test } from 'tap'
import type { Lease } from '../../core/ports/store/leases.ts'
import { takenOver } from '../../core/ports/store/ledger.ts'
import { change, claimed, type LedgerUnderTest, sampleClaim } from './samples.ts'

const MINUTE_MS = 60_000

/** What every implementation of the port Leases keeps, and Books of rows that have one. */
export function leasesContract(t: Test, make: (t: Test) => Promise<LedgerUnderTest>): void {
  t.test('a name has one holder, until it is released or over', async (t) => {
    const { leases, storeClock } = await make(t)
    const taken = await Promise.all(Array.from({ length: 10 }, () => leases.take('recovery', 10_000)))
    const [first] = taken.filter((lease) => lease !== undefined) as [Lease]
    t.equal(taken.filter(Boolean).length, 1)
    t.equal(first.name, 'recovery')
    t.ok(await leases.take('settle:a', 10_000), 'each name of its own')
    storeClock.nowMs += 9_999
    t.equal(await leases.take('recovery', 10_000), undefined)
    storeClock.nowMs += 1
    const second = (await leases.take('recovery', 10_000))!
    t.ok(second.id > first.id)
    t.equal(await leases.renew(first, 10_000), false, 'lost')
    await leases.release(first)
    t.equal(
      await leases.take('recovery', 10_000),
      undefined,
      'a process that lost the lease releases nothing',
    )
    await leases.release(second)
    const third = (await leases.take('recovery', 10_000))!
    t.ok(third.id > second.id, 'no number is given out twice')
    t.equal(await leases.renew(second, 10_000), false)
  })

  t.test(
    'the holder of a name is the same for a reader and for a process that tries to take it',
    async (t) => {
      const { leases, storeClock } = await make(t)
      t.equal(await leases.holderOf('recovery'), undefined)
      const lease = (await leases.take('recovery', 10_000))!
      storeClock.nowMs += 4_000
      t.match(await leases.holderOf('recovery'), { id: lease.id, endsInMs: 6_000 })
      t.equal(await leases.holderOf('other'), undefined)
      await leases.renew(lease, 10_000)
      t.match(await leases.holderOf('recovery'), { endsInMs: 10_000 })
      storeClock.nowMs += 10_000
      t.equal(await leases.holderOf('recovery'), undefined, 'it is over')
      t.ok(await leases.renew(lease, 10_000))
      await leases.release(lease)
      t.equal(await leases.holderOf('recovery'), undefined)
      await leases.take('recovery', 10_000)
      storeClock.nowMs = 5_000
      t.equal(await leases.holderOf('recovery'), undefined, 'of before the machine started again')
    },
  )

  t.test('held names are found by their prefix', async (t) => {
    const { leases, storeClock } = await make(t)
    const sorted = async (prefix: string) => (await leases.heldNames(prefix)).sort()
    t.strictSame(await sorted('process:'), [])
    const first = (await leases.take('process:a', 10_000))!
    for (const name of ['process:b', 'process', 'pro%:c', 'settle:process:']) await leases.take(name, 10_000)
    t.strictSame(await sorted('process:'), ['process:a', 'process:b'])
    t.strictSame(await sorted('pro%'), ['pro%:c'])
    storeClock.nowMs += 5_000
    await leases.renew(first, 10_000)
    storeClock.nowMs += 5_000
    t.strictSame(await sorted('process:'), ['process:a'], 'the other one is over')
    await leases.release(first)
    t.strictSame(await sorted(''), [])
  })

  t.test('a lease that is renewed is kept, also after its time if no other process took it', async (t) => {
    const { leases, storeClock } = await make(t)
    const lease = (await leases.take('recovery', 10_000))!
    for (let i = 0; i < 5; i++) {
      storeClock.nowMs += 9_000
      t.equal(await leases.renew(lease, 10_000), true)
    }
    storeClock.nowMs += 60_000
    t.equal(await leases.renew(lease, 10_000), true)
    t.equal(await leases.take('recovery', 10_000), undefined)
  })

  t.test('no clock change of any process takes a lease from its holder', async (t) => {
    const { leases, clock } = await make(t)
    const lease = (await leases.take('recovery', 10_000))!
    for (const stepMs of [10 * MINUTE_MS, -20 * MINUTE_MS]) {
      clock.nowMs += stepMs
      t.equal(await leases.take('recovery', 10_000), undefined, `${stepMs} ms`)
      t.equal(await leases.renew(lease, 10_000), true)
    }
  })

  t.test('a process that read the clock before the holder renewed does not take the lease', async (t) => {
    const under = await make(t)
    const { leases, storeClock } = under
    const lease = (await leases.take('process:a', 10_000))!
    await claimed(under, sampleClaim('k1', { lease: lease.id }))
    // A writer has a queue, and a server's clock is put right by some milliseconds.
    for (const beforeMs of [1, 250, 4_500]) {
      storeClock.nowMs += beforeMs
      t.equal(await leases.renew(lease, 10_000), true)
      storeClock.nowMs -= beforeMs
      const other = (await leases.take(`process:b${beforeMs}`, 10_000))!
      t.match(await leases.holderOf('process:a'), { id: lease.id }, `${beforeMs} ms before`)
      t.equal(await leases.take('process:a', 10_000), undefined)
      t.ok((await leases.heldNames('process:')).includes('process:a'))
      t.equal(await under.ledger.adopt(other, ['claimed'], 10), 0, 'nor what he works on')
    }
    t.equal(await leases.renew(lease, 10_000), true)
  })

  t.test('what was leased before the machine started again is over', async (t) => {
    const under = await make(t)
    const { leases, storeClock } = under
    const lease = (await leases.take('recovery', 10_000))!
    const process = (await leases.take('process:a', 10_000))!
    await claimed(under, sampleClaim('k1', { lease: process.id }))
    storeClock.nowMs = 5_000
    const mine = { id: process.id + 100, name: 'process:b' }
    t.equal(await under.ledger.adopt(mine, ['claimed'], 10), 1)
    const next = (await leases.take('recovery', 10_000))!
    t.ok(next.id > lease.id)
  })

  t.test('any run of two holders agrees with a line of who has it', async (t) => {
    const under = await make(t)
    const step = fc.oneof(
      fc.record({ do: fc.constantFrom('take', 'renew', 'release'), who: fc.constantFrom(0, 1) }),
      fc.record({ do: fc.constant('wait'), who: fc.constantFrom(1, 600, 1_000) }),
    )
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const name = `name-${run++}`
        const held: [Lease | undefined, Lease | undefined] = [undefined, undefined]
        let holder: { id: number; endsAtMs: number } | undefined
        let largest = 0
        for (const { do: what, who } of steps) {
          const nowMs = under.storeClock.nowMs
          const mine = held[who as 0 | 1]
          if (what === 'wait') under.storeClock.nowMs += who
          else if (what === 'take') {
            const lease = await under.leases.take(name, 1_000)
            const isFree = holder === undefined || holder.endsAtMs <= nowMs
            if ((lease !== undefined) !== isFree) return false
            if (lease === undefined) continue
            if (lease.id <= largest) return false
            largest = lease.id
            holder = { id: lease.id, endsAtMs: nowMs + 1_000 }
            held[who as 0 | 1] = lease
          } else if (mine !== undefined && what === 'renew') {
            const isMine = holder?.id === mine.id
            if ((await under.leases.renew(mine, 1_000)) !== isMine) return false
            if (isMine) holder!.endsAtMs = nowMs + 1_000
          } else if (mine !== undefined) {
            await under.leases.release(mine)
            if (holder?.id === mine.id) holder = undefined
          }
        }
        return true
      }),
      { numRuns: 60 },
    )
    t.ok(run >= 60)
  })

  t.test('rows of a lease that is over are adopted, by one, and are due at once', async (t) => {
    const under = await make(t)
    const { ledger, leases, storeClock } = under
    const dead = (await leases.take('process:a', 10_000))!
    const [x, y] = [(await leases.take('process:b', 60_000))!, (await leases.take('process:c', 60_000))!]
    const rows = new Map<number, string>()
    for (const name of ['k1', 'k2', 'k3']) {
      rows.set(await claimed(under, sampleClaim(name, { lease: dead.id })), name)
    }
    const alive = sampleClaim('k4', { lease: x.id })
    await claimed(under, alive)
    t.equal(await ledger.adopt(x, ['claimed'], 10), 0, 'it lives')
    storeClock.nowMs += 10_000
    t.equal(await ledger.adopt(x, ['settling', 'settled'], 10), 0, 'of the states that are asked for')
    t.equal(await ledger.adopt(x, ['claimed'], 2), 2, 'as many as are asked for')
    const adopted = await Promise.all([x, y].map((lease) => ledger.adopt(lease, ['claimed', 'pending'], 10)))
    t.equal(adopted[0]! + adopted[1]!, 1)
    const due = await ledger.due({ states: ['claimed'], limit: 10 })
    t.strictSame(new Set(due.map(({ row }) => row)), new Set(rows.keys()))
    for (const record of due) {
      t.not(record.lease, dead.id)
      t.equal(record.dueReason, takenOver)
      const claim = sampleClaim(rows.get(record.row)!)
      const to = (lease: number) =>
        ledger.apply(change(claim, record.row, 'claimed', 'settling', { lease, dueInMs: 0 }))
      t.equal(await to(dead.id), false, 'a process that lost the lease cannot write')
      t.equal(await to(record.lease!), true)
      t.equal((await ledger.find(claim.key))?.dueReason, null)
    }
    t.match(await ledger.find(alive.key), { lease: x.id })
    t.equal(await ledger.adopt(x, ['settling'], 10), 0)
  })

  t.test('rows of a released lease, and of an unknown one, are adopted', async (t) => {
    const under = await make(t)
    const gone = (await under.leases.take('process:a', 10_000))!
    const mine = (await under.leases.take('process:b', 10_000))!
    await claimed(under, sampleClaim('k1', { lease: gone.id }))
    await claimed(under, sampleClaim('k2', { lease: 0 }))
    await under.leases.release(gone)
    t.equal(await under.ledger.adopt(mine, ['claimed'], 10), 2)
  })

  t.test('a process never adopts its own rows, though it was frozen for longer than its lease', async (t) => {
    const under = await make(t)
    const mine = (await under.leases.take('process:a', 10_000))!
    await claimed(under, sampleClaim('k1', { lease: mine.id }))
    under.storeClock.nowMs += 60_000
    t.equal(await under.ledger.adopt(mine, ['claimed'], 10), 0)
    t.equal(await under.leases.renew(mine, 10_000), true)
    const other = (await under.leases.take('process:b', 10_000))!
    t.equal(await under.ledger.adopt(other, ['claimed'], 10), 0, 'it lives again')
  })

  t.test('a row without work is never adopted', async (t) => {
    const under = await make(t)
    const { ledger } = under
    const mine = (await under.leases.take('process:b', 10_000))!
    for (const [name, to, more] of [
      ['k1', 'settled', { takenBy: null }],
      ['k2', 'delivered', {}],
      ['k3', 'refund_due', { takenBy: 5 }],
      ['k4', 'rejected', {}],
    ] as const) {
      const claim = sampleClaim(name, { lease: 5 })
      const row = await claimed(under, claim)
      t.ok(await ledger.apply(change(claim, row, 'claimed', to, more)))
      t.equal((await ledger.find(claim.key))?.lease, null, `${to} has no lease`)
    }
    t.equal(await ledger.adopt(mine, ['claimed', 'settling', 'pending', 'settled'], 10), 0)
  })
}
