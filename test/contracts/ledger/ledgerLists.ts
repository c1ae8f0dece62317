import type { Test } from 'tap'
import { neverSent, type PaymentState } from '../../../core/domain/payment.ts'
import {
  sampleAttempt as attempt,
  change,
  claimed,
  keyOf,
  type LedgerUnderTest,
  sampleResponse as response,
  sampleClaim,
  startMs,
} from '../samples.ts'

const largestDelayMs = 600_000

/** What every implementation of the port Books keeps about which rows it gives, in which order, and when. */
export function bookListsContract(t: Test, make: (t: Test) => Promise<LedgerUnderTest>): void {
  t.test(
    'what is due comes longest due first, of the states and the network that are asked for',
    async (t) => {
      const under = await make(t)
      const { ledger, storeClock } = under
      const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' as const
      for (const [name, dueInMs, to, network] of [
        ['k1', 3_000, 'pending', 'eip155:84532'],
        ['k2', 1_000, 'pending', solana],
        ['k3', 2_000, 'delivered', 'eip155:84532'],
        ['k4', null, 'pending', 'eip155:84532'],
        ['k5', largestDelayMs * 9, 'pending', 'eip155:84532'],
      ] as const) {
        const claim = sampleClaim(name, { network })
        const row = await claimed(under, claim)
        await ledger.apply(change(claim, row, 'claimed', to, { dueInMs, response }))
      }
      const due = async (more = {}) =>
        (await ledger.due({ states: ['pending', 'delivered'], limit: 9, ...more })).map(({ nonce }) => nonce)
      t.strictSame(await due(), [])
      storeClock.nowMs += 3_000
      under.clock.nowMs -= 600_000
      t.strictSame(await due(), ['0xk2', '0xk3', '0xk1'])
      t.strictSame(await due({ limit: 2 }), ['0xk2', '0xk3'])
      t.strictSame(await due({ states: ['pending'] }), ['0xk2', '0xk1'])
      t.strictSame(await due({ network: 'eip155:84532', limit: 1 }), ['0xk3'])
      t.strictSame(await due({ states: [] }), [])
      storeClock.nowMs += largestDelayMs
      t.strictSame(await due(), ['0xk2', '0xk3', '0xk1', '0xk5'], 'no delay is longer than the largest')
    },
  )

  t.test('everything that was due before the machine rebooted is due now or soon', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    await under.ledger.apply(change(claim, row, 'claimed', 'pending', { dueInMs: 5_000 }))
    const due = async () => (await under.ledger.due({ states: ['pending'], limit: 9 })).length
    t.equal(await due(), 0)
    under.storeClock.nowMs = 1_000
    t.equal(await due(), 1)
  })

  t.test('a row that is put off is left alone until then, and says how often and why', async (t) => {
    const under = await make(t)
    const { ledger, storeClock } = under
    const names = ['k1', 'k2', 'k3', 'k4']
    const rows: number[] = []
    for (const name of names) {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      await ledger.apply(change(claim, row, 'claimed', 'pending', { dueInMs: 0 }))
      rows.push(row)
    }
    const off = { state: 'pending', afterMs: 2_000, tries: 1, reason: 'no answer' } as const
    under.clock.nowMs += 7
    await ledger.putOff([
      { row: rows[0]!, ...off },
      { row: rows[1]!, ...off, tries: 12, reason: 'odd' },
      { row: rows[2]!, ...off, afterMs: null },
      { row: rows[3]!, ...off, state: 'settling' },
      { row: 99_999, ...off },
    ])
    const due = async () => (await ledger.due({ states: ['pending'], limit: 9 })).map(({ row }) => row)
    t.strictSame(await due(), [rows[3]])
    t.match(await ledger.find(keyOf('k1')), { tries: 1, dueReason: 'no answer', updatedAtMs: startMs })
    t.match(await ledger.find(keyOf('k4')), { tries: 0, dueReason: null })
    const parked = await ledger.parked(10, 9)
    t.equal(parked.total, 2)
    t.strictSame(
      parked.rows.map(({ row, tries, dueReason }) => [row, tries, dueReason]),
      [
        [rows[1], 12, 'odd'],
        [rows[2], 1, 'no answer'],
      ],
    )
    t.match(await ledger.parked(1, 1), { total: 3, rows: { length: 1 } })
    storeClock.nowMs += 2_000
    t.strictSame(await due(), [rows[3], rows[0], rows[1]])
    await ledger.putOff([{ row: rows[0]!, state: 'pending', afterMs: 0, tries: 2 }])
    t.match(await ledger.find(keyOf('k1')), { tries: 2, dueReason: 'no answer' })
    await ledger.apply(change(sampleClaim('k1'), rows[0]!, 'pending', 'pending'))
    t.match(await ledger.find(keyOf('k1')), { tries: 0, dueReason: null }, 'it moved')
  })

  t.test(
    'the attempts of a settler that are open are listed without their bytes, and which of them left the chain, or are never sent',
    async (t) => {
      const under = await make(t)
      for (const [name, to, settler] of [
        ['k1', 'settling', 'evm:a'],
        ['k2', 'pending', 'evm:a'],
        ['k3', 'settled', 'evm:a'],
        ['k4', 'settling', 'evm:b'],
        ['k5', 'reorged', 'evm:a'],
        ['k6', 'pending', 'evm:a'],
      ] as const) {
        const claim = sampleClaim(name)
        const row = await claimed(under, claim)
        const signed = { ...attempt, settler, sequence: name }
        const errorReason = name === 'k6' ? neverSent : null
        await under.ledger.apply(change(claim, row, 'claimed', to, { attempt: signed, errorReason }))
      }
      const open = await under.ledger.openAttempts('evm:a')
      const expected = (sequence: string) => ({ ...attempt, settler: 'evm:a', bytes: '', sequence })
      t.strictSame(
        open.toSorted((a, b) => (a.sequence! < b.sequence! ? -1 : 1)),
        [
          ...[expected('k1'), expected('k2')],
          ...[
            { ...expected('k5'), isReorged: true },
            { ...expected('k6'), isUnsent: true },
          ],
        ],
      )
    },
  )

  t.test(
    'of what was settled and is to be looked up once more, the transactions are listed that have done it themselves',
    async (t) => {
      const under = await make(t)
      const hash = (n: number) => `0x${String(n).padStart(64, '0')}`
      for (const [name, settler, tx, landed, dueInMs] of [
        ['k1', 'evm:a', 1, 1, 30_000],
        ['k2', 'evm:a', 2, 2, null],
        ['k3', 'evm:a', 3, 9, 30_000],
        ['k4', 'evm:b', 4, 4, 30_000],
        ['k5', 'evm:a', 5, 5, 30_000],
        ['k6', 'evm:a', 5, 5, 30_000],
      ] as const) {
        const claim = sampleClaim(name)
        const row = await claimed(under, claim)
        const signed = { ...attempt, settler, sequence: String(tx), transaction: hash(tx) }
        await under.ledger.apply(change(claim, row, 'claimed', 'settling', { attempt: signed }))
        const settled = { transaction: hash(landed), event: name, block: 1, chargedAtomic: 1n }
        await under.ledger.apply(change(claim, row, 'settling', 'settled', { settled, dueInMs }))
      }
      const mined = await under.ledger.minedAttempts('evm:a')
      const expected = (n: number) => ({
        ...{ ...attempt, settler: 'evm:a', bytes: '', sequence: String(n), transaction: hash(n) },
        isMined: true,
      })
      t.strictSame(
        mined.toSorted((a, b) => (a.sequence! < b.sequence! ? -1 : 1)),
        [expected(1), expected(5)],
      )
      t.strictSame(await under.ledger.openAttempts('evm:a'), [])
    },
  )

  t.test('no two open attempts of a key use the same nonce for two transactions', async (t) => {
    const under = await make(t)
    const { ledger } = under
    const begin = async (name: string, signed: Partial<typeof attempt>, more: object = {}) => {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      return {
        claim,
        row,
        change: change(claim, row, 'claimed', 'settling', { attempt: { ...attempt, ...signed }, ...more }),
      }
    }
    const seven = { settler: 'evm:a', sequence: '7', transaction: '0xa' }
    const first = await begin('k1', seven)
    t.equal(await ledger.apply(first.change), true)
    const second = await begin('k2', { ...seven, transaction: '0xb' }, { response })
    await t.rejects(ledger.apply(second.change), { code: 'CONFLICT' })
    t.match(await ledger.find(second.claim.key), { state: 'claimed', attempt: null, hasResponse: false })
    const others = [
      { ...seven, settler: 'evm:b', transaction: '0xb' },
      { ...seven, sequence: '8', transaction: '0xc' },
      // Several payments in one transaction.
      seven,
    ]
    for (const [i, signed] of others.entries())
      t.equal(await ledger.apply((await begin(`other${i}`, signed)).change), true)
    const slot = { settler: 'svm:a', sequence: '7' }
    for (const transaction of ['s1', 's2'])
      t.equal(
        await ledger.apply((await begin(transaction, { ...slot, transaction })).change),
        true,
        'a slot is no number',
      )
    const together = await ledger.applyAll([
      second.change,
      (await begin('k9', { ...seven, sequence: '9' })).change,
    ])
    t.match(together[0], { code: 'CONFLICT' })
    t.equal(together[1], true)

    await ledger.apply(change(first.claim, first.row, 'settling', 'pending'))
    await t.rejects(ledger.apply(second.change), { code: 'CONFLICT' }, 'a pending one has its number')
    await ledger.apply(
      change(first.claim, first.row, 'pending', 'pending', { attempt: { ...attempt, ...seven } }),
    )
    await ledger.apply(change(first.claim, first.row, 'pending', 'failed_final'))
    await t.rejects(
      ledger.apply(second.change),
      { code: 'CONFLICT' },
      'its neighbour in the transaction has it still',
    )
    const neighbour = sampleClaim('other2')
    const { row } = (await ledger.find(neighbour.key))!
    await ledger.apply(change(neighbour, row, 'settling', 'rejected', { attempt: null }))
    t.equal(await ledger.apply(second.change), true, 'no process owns it any more')
  })

  t.test('what settles several payments is kept for each of them, until none has it any more', async (t) => {
    const under = await make(t)
    const { ledger } = under
    const shared = { ...attempt, bytes: `0x02${'ab'.repeat(5_000)}`, isShared: true as const }
    const names = ['k1', 'k2', 'k3'] as const
    const rows = new Map<string, number>()
    for (const name of names) rows.set(name, await claimed(under, sampleClaim(name)))
    const move = (name: string, from: PaymentState, to: PaymentState, more: object) =>
      ledger.apply(change(sampleClaim(name), rows.get(name)!, from, to, more))
    await Promise.all(names.map((name) => move(name, 'claimed', 'settling', { attempt: shared })))
    for (const name of names) t.strictSame((await ledger.find(keyOf(name)))?.attempt, shared)

    await move('k1', 'settling', 'rejected', { attempt: null })
    t.equal((await ledger.find(keyOf('k1')))?.attempt, null)
    await move('k2', 'settling', 'settling', { attempt })
    t.strictSame((await ledger.find(keyOf('k2')))?.attempt, attempt, 'another one took its place')
    t.strictSame((await ledger.find(keyOf('k3')))?.attempt, shared)
    await move('k3', 'settling', 'rejected', { attempt: null })

    await Promise.all([claimed(under, sampleClaim('k1')), claimed(under, sampleClaim('k3'))])
    await move('k1', 'claimed', 'settling', { attempt: { ...shared, bytes: '0x03' } })
    t.match(await ledger.find(keyOf('k1')), { attempt: { bytes: '0x03' } }, 'nothing was left of the former')
  })

  t.test('the list gives rows by state, those first that moved longest ago', async (t) => {
    const under = await make(t)
    const { ledger, clock } = under
    for (const name of ['k1', 'k2', 'k3', 'k4']) {
      await claimed(under, sampleClaim(name))
      clock.nowMs += 1_000
    }
    const list = async (more: object) =>
      (await ledger.list({ states: ['claimed'], limit: 10, ...more })).map(({ nonce }) => nonce.slice(2))
    t.strictSame(await list({}), ['k1', 'k2', 'k3', 'k4'])
    t.strictSame(await list({ limit: 2 }), ['k1', 'k2'])
    t.strictSame(await list({ isNewestFirst: true, limit: 3 }), ['k4', 'k3', 'k2'])
    t.strictSame(await list({ updatedBeforeMs: startMs + 1_000 }), ['k1'])
    t.strictSame(await list({ updatedAfterMs: startMs + 2_000 }), ['k3', 'k4'])
    t.strictSame(await list({ states: ['settling', 'pending'] }), [])
    t.strictSame(await list({ states: [] }), [])
    t.strictSame(await list({ settler: attempt.settler }), [])
    await claimed(under, sampleClaim('k5', { lease: 9 }))
    t.strictSame(await list({ lease: 9 }), ['k5'])
    t.strictSame(await list({ lease: 9, states: ['settling'] }), [])
    const { row } = (await ledger.find(keyOf('k2')))!
    await ledger.apply(change(sampleClaim('k2'), row, 'claimed', 'settling', { attempt, response }))
    t.strictSame(await list({ states: ['settling'], settler: attempt.settler }), ['k2'])
    t.strictSame(await list({ states: ['settling', 'claimed'] }), ['k1', 'k3', 'k4', 'k2', 'k5'])
    const newest = { states: ['settling', 'claimed'], isNewestFirst: true, limit: 4 }
    t.strictSame(await list(newest), ['k5', 'k4', 'k3', 'k2'])
  })
}
