import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import { action, followModel } from './bookHistories.ts'
import {
  sampleAnswer as answer,
  sampleAttempt as attempt,
  type BooksUnderTest,
  change,
  claimed,
  keyOf,
  saleOf,
  sampleClaim,
  samplePurchase,
  sell,
  startMs,
} from './samples.ts'

const largestDelayMs = 600_000
const nothingYet = {
  ...{ state: 'claimed', attempt: null, hasAnswer: false, transaction: null, event: null, block: null },
  ...{ chargedAtomic: null, errorReason: null, isLandedLate: false, tries: 0, dueReason: null },
}

/** What every implementation of the port Books keeps. `make` gives a store of its own, empty, to each test. */
export function booksContract(t: Test, make: (t: Test) => Promise<BooksUnderTest>): void {
  t.test('a payment is claimed once, and the loser sees the row that has it', async (t) => {
    const { books } = await make(t)
    const claim = sampleClaim('k1')
    const first = await books.claim(claim)
    if (!first.won) return t.fail('somebody had it')
    const other = { lease: 9, purchaseId: 'other', requestHash: 'other', payload: 'x' }
    t.strictSame(await books.claim({ ...claim, ...other }), {
      won: false,
      record: { ...claim, ...nothingYet, row: first.row, claimedAtMs: startMs, updatedAtMs: startMs },
    })
  })

  t.test('of many claims at once one wins, and all know which', async (t) => {
    const { books } = await make(t)
    const results = await Promise.all(
      Array.from({ length: 100 }, async (_, i) => ({
        result: await books.claim(sampleClaim('k1', { purchaseId: `p${i}` })),
        id: `p${i}`,
      })),
    )
    const winners = results.filter(({ result }) => result.won)
    t.equal(winners.length, 1)
    t.ok(results.every(({ result }) => result.won || result.record.purchaseId === winners[0]!.id))
  })

  t.test('a rejected payment is taken over whole by the next claim, under its row', async (t) => {
    const { books, clock } = await make(t)
    const first = sampleClaim('k1')
    const row = await claimed({ books }, first)
    await books.apply(change(first, row, 'claimed', 'settling', { attempt, answer, lease: 7 }))
    t.ok(await books.apply(change(first, row, 'settling', 'rejected', { errorReason: 'why', answer: null })))
    t.match(await books.find(first.key), { errorReason: 'why', lease: null, hasAnswer: false })
    clock.nowMs += 1_000
    const second = sampleClaim('k1', {
      ...{ lease: 8, linkId: 'link-2', storeId: 'store-2', requestHash: 'r2', purchaseId: 'p2' },
      ...{ payload: '{"second":true}', amountAtomic: 5n, payTo: '0x33', validBeforeMs: startMs + 9_000 },
      ...{ scheme: 'upto' },
    })
    t.strictSame(await books.claim(second), { won: true, row })
    const times = { claimedAtMs: startMs + 1_000, updatedAtMs: startMs + 1_000 }
    t.strictSame(await books.find(second.key), { ...second, ...nothingYet, row, ...times })
    t.equal(
      await books.apply(change(first, row, 'claimed', 'settling')),
      false,
      'a change of the claim before',
    )
  })

  t.test('amounts, times and bytes come back exactly, however large', async (t) => {
    const { books } = await make(t)
    const facts = { amountAtomic: 2n ** 256n - 1n, validBeforeMs: Number.MAX_SAFE_INTEGER }
    const claim = sampleClaim('k1', facts)
    const row = await claimed({ books }, claim)
    const body = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const settled = { transaction: '0xAa', event: '3', block: 2 ** 40, chargedAtomic: 2n ** 255n }
    await books.apply(
      change(claim, row, 'claimed', 'settled', { attempt, answer: { ...answer, body }, settled }),
    )
    t.match(await books.find(claim.key), { ...facts, ...settled, attempt, hasAnswer: true })
    const stored = await books.answerOf(row)
    t.match(stored, { status: answer.status, headers: answer.headers })
    t.ok(body.equals(stored!.body))
    await t.rejects(books.claim(sampleClaim('k2', { validBeforeMs: Number.POSITIVE_INFINITY })), RangeError)
    await t.rejects(books.claim(sampleClaim('k2', { validBeforeMs: 0.5 })), RangeError)
    await t.rejects(books.claim({ ...claim, key: 'short' }), RangeError)
    t.equal(await books.find(keyOf('k2')), undefined)
    t.equal(await books.answerOf(row + 1_000), undefined)
  })

  t.test('a change happens whole when every condition holds, else not at all', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const before = await under.books.find(claim.key)
    const more = { lease: 7, attempt, answer, errorReason: 'x', takenBy: 9, dueInMs: 0 } as const
    const refused = [
      change(claim, row, 'settling', 'settling', more),
      change(claim, row, [], 'settling', more),
      change(claim, row, 'claimed', 'settling', { ...more, lease: 8 }),
      change({ purchaseId: 'other' }, row, 'claimed', 'settling', more),
      change(claim, row + 1_000, 'claimed', 'settling', more),
    ]
    for (const one of refused) t.equal(await under.books.apply(one), false)
    t.strictSame(await under.books.applyAll(refused), Array(5).fill(false))
    t.strictSame(await under.books.find(claim.key), before)
    t.equal(await under.books.answerOf(row), undefined)
    t.strictSame(await under.books.due({ states: ['claimed', 'settling'], limit: 9 }), [])
    under.clock.nowMs += 5
    t.equal(await under.books.apply(change(claim, row, ['pending', 'claimed'], 'settling', more)), true)
    t.match(await under.books.find(claim.key), {
      ...{ state: 'settling', attempt, hasAnswer: true, errorReason: 'x', lease: 9 },
      updatedAtMs: startMs + 5,
    })
  })

  t.test('what a change does not name stays; null forgets it', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const apply = (more: object) =>
      under.books.apply(change(claim, row, ['claimed', 'settling'], 'settling', more))
    const find = () => under.books.find(claim.key)
    await apply({ attempt, answer, errorReason: 'x', settled: facts })
    await apply({})
    t.match(await find(), { attempt, hasAnswer: true, errorReason: 'x', lease: 7, ...facts })
    await apply({ attempt: { ...attempt, bytes: '0x02', transaction: '0xother' } })
    t.match(await find(), { attempt: { bytes: '0x02', transaction: '0xother' } })
    await apply({ answer: { ...answer, status: 204, body: Buffer.alloc(0) } })
    t.match(await under.books.answerOf(row), { status: 204 })
    await apply({ attempt: null, answer: null, errorReason: null, takenBy: null })
    t.match(await find(), { attempt: null, hasAnswer: false, errorReason: null, lease: null })
    t.equal(await under.books.answerOf(row), undefined)
  })

  t.test(
    'of many that apply the same change one does, and purchase and ledger are booked once',
    async (t) => {
      const under = await make(t)
      const claim = sampleClaim('k1')
      const purchase = samplePurchase(claim, '0xaa')
      const row = await claimed(under, claim)
      const settle = change(claim, row, ['settling', 'claimed'], 'settled', saleOf(purchase))
      const results = await Promise.all(Array.from({ length: 10 }, () => under.books.apply(settle)))
      t.strictSame(results.toSorted(), [...Array(9).fill(false), true])
      t.strictSame(await under.purchases.find(purchase.id), purchase)
      t.strictSame(await under.purchases.ledger(purchase.id), entriesOfSale(purchase))
      t.match(await under.books.find(claim.key), {
        state: 'settled',
        transaction: '0xaa',
        event: '0',
        block: 12,
      })
      t.match(await under.purchases.ledgerCheck(), {
        ...{
          purchases: 1,
          chargedPayments: 1,
          unresolvedPayments: 0,
          refundDue: 0,
          broken: [],
          unbalanced: [],
        },
        transactions: [{ network: claim.network, transaction: '0xaa', purchaseId: purchase.id }],
      })
    },
  )

  t.test('several payments of one transaction are booked, each by its own event', async (t) => {
    const under = await make(t)
    for (let i = 0; i < 5; i++) await sell(under, `k${i}`, i % 2 === 0 ? '0xAA' : '0xaa', { event: `${i}` })
    t.match(await under.purchases.ledgerCheck(), { purchases: 5, broken: [], unbalanced: [] })
  })

  t.test(
    'one event pays for one purchase: its second use is refused by name and changes nothing',
    async (t) => {
      const under = await make(t)
      await sell(under, 'k1', '0xAbCd', { event: '4' })
      const claim = sampleClaim('k2')
      const row = await claimed(under, claim)
      const twin = change(claim, row, 'claimed', 'settled', saleOf(samplePurchase(claim, '0xabcd'), '4'))
      const refusal = { code: 'CONFLICT', message: /0xabcd on eip155:84532.*purchase-of-k2/ }
      await t.rejects(under.books.apply(twin), refusal)
      const [error, isOther] = await under.books.applyAll([
        twin,
        change(claim, row, 'claimed', 'claimed', { errorReason: 'kept' }),
      ])
      t.match(error, refusal)
      t.equal(isOther, true)
      t.match(await under.books.find(claim.key), { state: 'claimed', transaction: null, errorReason: 'kept' })
      t.equal(await under.purchases.find(claim.purchaseId), undefined)
      t.strictSame(await under.purchases.ledger(claim.purchaseId), [])
      await t.rejects(
        under.books.apply(
          change(
            claim,
            row,
            'claimed',
            'settled',
            saleOf(samplePurchase(claim, '0xee', { id: 'purchase-of-k1' })),
          ),
        ),
        { code: 'CONFLICT' },
        "another payment's purchase id",
      )
    },
  )

  t.test('payments without a transaction of their own do not meet', async (t) => {
    const under = await make(t)
    for (const name of ['k1', 'k2']) {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      const purchase = { ...samplePurchase(claim, ''), txHash: null }
      t.ok(await under.books.apply(change(claim, row, 'claimed', 'settled', saleOf(purchase, null!))))
      t.strictSame(await under.purchases.find(purchase.id), purchase)
    }
    t.match(await under.purchases.ledgerCheck(), { purchases: 2, transactions: [], broken: [] })
  })

  t.test('base58 transactions that differ in case are two', async (t) => {
    const under = await make(t)
    const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' as const
    await sell(under, 'k1', '5abC', { network })
    await sell(under, 'k2', '5ABc', { network })
    t.match(await under.purchases.ledgerCheck(), { purchases: 2 })
  })

  t.test('a write that breaks a rule leaves the writes beside it standing', async (t) => {
    const under = await make(t)
    await sell(under, 'k1', '0xaa')
    const [second, third] = [sampleClaim('k2'), sampleClaim('k3')]
    const rows = [await claimed(under, second), await claimed(under, third)] as const
    const settle = (claim: typeof second, row: number, tx: string) =>
      under.books.apply(change(claim, row, 'claimed', 'settled', saleOf(samplePurchase(claim, tx))))
    const results = await Promise.allSettled([
      under.books.claim(sampleClaim('before')),
      settle(second, rows[0], '0xaa'),
      settle(third, rows[1], '0xbb'),
      under.books.claim(sampleClaim('after')),
    ])
    t.strictSame(
      results.map((r) => r.status),
      ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
    )
    for (const name of ['before', 'after']) t.ok(await under.books.find(keyOf(name)))
    t.match(await under.books.find(second.key), { state: 'claimed' })
    t.equal((await under.purchases.ledger(third.purchaseId)).length, 4, 'booked once')
    t.match(await under.purchases.ledgerCheck(), { purchases: 2, broken: [], unbalanced: [] })
  })

  t.test('a transfer that leaves the chain and comes back is still one purchase', async (t) => {
    const under = await make(t)
    const { claim, row, purchase } = await sell(under, 'k1', '0xaa')
    const gone = { purchaseStatus: 'reorged', entries: entriesOfRefund(purchase) } as const
    t.ok(await under.books.apply(change(claim, row, 'settled', 'reorged', gone)))
    t.match(await under.purchases.find(purchase.id), { status: 'reorged' })
    t.match(await under.purchases.ledgerCheck(), {
      purchases: 0,
      transactions: [],
      broken: [],
      unbalanced: [],
    })
    const back = samplePurchase(claim, '0xbb', { createdAtMs: startMs + 9_000, reviewTokenHash: 'new' })
    t.ok(await under.books.apply(change(claim, row, 'reorged', 'settled', saleOf(back, '7'))))
    t.strictSame(await under.purchases.find(purchase.id), { ...purchase, txHash: '0xbb' })
    t.equal((await under.purchases.page('store-1', { limit: 10 })).purchases.length, 1)
    t.equal((await under.purchases.ledger(purchase.id)).length, 12)
    t.match(await under.purchases.ledgerCheck(), { purchases: 1, broken: [], unbalanced: [] })
    await sell(under, 'k2', '0xaa')
    await t.rejects(
      sell(under, 'k3', '0xbb', { event: '7' }),
      { code: 'CONFLICT' },
      'it pays by its new event',
    )
  })

  t.test(
    'what is due comes longest due first, of the states and the network that are asked for',
    async (t) => {
      const under = await make(t)
      const { books, storeClock } = under
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
        await books.apply(change(claim, row, 'claimed', to, { dueInMs, answer }))
      }
      const due = async (more = {}) =>
        (await books.due({ states: ['pending', 'delivered'], limit: 9, ...more })).map(({ nonce }) => nonce)
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

  t.test('whatever was due before the machine started again is due, or soon will be', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    await under.books.apply(change(claim, row, 'claimed', 'pending', { dueInMs: 5_000 }))
    const due = async () => (await under.books.due({ states: ['pending'], limit: 9 })).length
    t.equal(await due(), 0)
    under.storeClock.nowMs = 1_000
    t.equal(await due(), 1)
  })

  t.test('a row that is put off is left alone until then, and says how often and why', async (t) => {
    const under = await make(t)
    const { books, storeClock } = under
    const names = ['k1', 'k2', 'k3', 'k4']
    const rows: number[] = []
    for (const name of names) {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      await books.apply(change(claim, row, 'claimed', 'pending', { dueInMs: 0 }))
      rows.push(row)
    }
    const off = { state: 'pending', afterMs: 2_000, tries: 1, reason: 'no answer' } as const
    under.clock.nowMs += 7
    await books.putOff([
      { row: rows[0]!, ...off },
      { row: rows[1]!, ...off, tries: 12, reason: 'odd' },
      { row: rows[2]!, ...off, afterMs: null },
      { row: rows[3]!, ...off, state: 'settling' },
      { row: 99_999, ...off },
    ])
    const due = async () => (await books.due({ states: ['pending'], limit: 9 })).map(({ row }) => row)
    t.strictSame(await due(), [rows[3]])
    t.match(await books.find(keyOf('k1')), { tries: 1, dueReason: 'no answer', updatedAtMs: startMs })
    t.match(await books.find(keyOf('k4')), { tries: 0, dueReason: null })
    const parked = await books.parked(10, 9)
    t.equal(parked.total, 2)
    t.strictSame(
      parked.rows.map(({ row, tries, dueReason }) => [row, tries, dueReason]),
      [
        [rows[1], 12, 'odd'],
        [rows[2], 1, 'no answer'],
      ],
    )
    t.match(await books.parked(1, 1), { total: 3, rows: { length: 1 } })
    storeClock.nowMs += 2_000
    t.strictSame(await due(), [rows[3], rows[0], rows[1]])
    await books.putOff([{ row: rows[0]!, state: 'pending', afterMs: 0, tries: 2 }])
    t.match(await books.find(keyOf('k1')), { tries: 2, dueReason: 'no answer' })
    await books.apply(change(sampleClaim('k1'), rows[0]!, 'pending', 'pending'))
    t.match(await books.find(keyOf('k1')), { tries: 0, dueReason: null }, 'it moved')
  })

  t.test('the attempts of a settler that are open are listed without their bytes', async (t) => {
    const under = await make(t)
    for (const [name, to, settler] of [
      ['k1', 'settling', 'evm:a'],
      ['k2', 'pending', 'evm:a'],
      ['k3', 'settled', 'evm:a'],
      ['k4', 'settling', 'evm:b'],
    ] as const) {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      const signed = { ...attempt, settler, sequence: name }
      await under.books.apply(change(claim, row, 'claimed', to, { attempt: signed }))
    }
    const open = await under.books.openAttempts('evm:a')
    const expected = (sequence: string) => ({ ...attempt, settler: 'evm:a', bytes: '', sequence })
    t.strictSame(
      open.toSorted((a, b) => (a.sequence! < b.sequence! ? -1 : 1)),
      [expected('k1'), expected('k2')],
    )
  })

  t.test('the list gives rows by state, those first that moved longest ago', async (t) => {
    const under = await make(t)
    const { books, clock } = under
    for (const name of ['k1', 'k2', 'k3', 'k4']) {
      await claimed(under, sampleClaim(name))
      clock.nowMs += 1_000
    }
    const list = async (more: object) =>
      (await books.list({ states: ['claimed'], limit: 10, ...more })).map(({ nonce }) => nonce.slice(2))
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
    const { row } = (await books.find(keyOf('k2')))!
    await books.apply(change(sampleClaim('k2'), row, 'claimed', 'settling', { attempt, answer }))
    t.strictSame(await list({ states: ['settling'], settler: attempt.settler }), ['k2'])
    t.strictSame(await list({ states: ['settling', 'claimed'] }), ['k1', 'k3', 'k4', 'k2', 'k5'])
  })

  t.test('old answers go, some at a time; those of open settlements and all rows stay', async (t) => {
    const under = await make(t)
    const rows = new Map<string, number>()
    for (const [name, to, afterMs] of [
      ['k1', 'delivered', 0],
      ['k2', 'settling', 0],
      ['k3', 'pending', 0],
      ['k4', 'settled', 5],
      ['k5', 'refunded', 0],
    ] as const) {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      rows.set(name, row)
      under.clock.nowMs = startMs + afterMs
      await under.books.apply(change(claim, row, 'claimed', to, { answer }))
    }
    const left = async () => {
      const kept = await Promise.all(
        [...rows].map(async ([name, row]) => (await under.books.answerOf(row)) && name),
      )
      return kept.filter(Boolean)
    }
    t.equal(await under.books.forgetAnswers(startMs, 10), 0)
    t.equal(await under.books.forgetAnswers(startMs + 5, 1), 1)
    t.equal(await under.books.forgetAnswers(startMs + 5, 10), 1)
    t.strictSame(await left(), ['k2', 'k3', 'k4'])
    t.equal(await under.books.forgetAnswers(startMs + 6, 10), 1)
    t.strictSame(await left(), ['k2', 'k3'])
    t.match(await under.books.find(keyOf('k1')), { state: 'delivered', hasAnswer: false })
  })

  t.test('an answer comes back byte for byte, whatever its size and wherever its memory is', async (t) => {
    const memory = Buffer.alloc(
      100_000,
      Uint8Array.from({ length: 256 }, (_, i) => i),
    )
    const under = await make(t)
    for (const length of [0, 1, 255, 256, 16_383, 16_384, 16_385, 60_000]) {
      const claim = sampleClaim(`k${length}`)
      const row = await claimed(under, claim)
      const body = memory.subarray(7, 7 + length)
      await under.books.apply(change(claim, row, 'claimed', 'delivered', { answer: { ...answer, body } }))
      t.ok(body.equals((await under.books.answerOf(row))!.body), `${length} bytes`)
    }
  })

  t.test('one answer that many ask for at once is one answer', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const body = Buffer.alloc(5_000_000, 'a')
    await under.books.apply(change(claim, row, 'claimed', 'delivered', { answer: { ...answer, body } }))
    const got = await Promise.all(Array.from({ length: 64 }, () => under.books.answerOf(row)))
    t.ok(body.equals(got[0]!.body))
    t.ok(
      got.every((one) => one!.body === got[0]!.body),
      'its bytes are there once',
    )
  })

  t.test('any history of two processes ends where the changes say', async (t) => {
    const under = await make(t)
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40 }), async (actions) => {
        await followModel(under, actions, `run${run++}-`)
      }),
      { numRuns: 200 },
    )
    t.ok(run >= 200)
  })
}

const facts = { transaction: '0xaa', event: '1', block: 5, chargedAtomic: 3n }
