import fc from 'fast-check'
import type { Test } from 'tap'
import type { PaymentState } from '../../../core/domain/payment.ts'
import type { ClaimRequest, PaymentChange } from '../../../core/ports/store/ledger.ts'
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
import { action, followModel } from './ledgerHistories.ts'
import { ledgerIdentifiersContract } from './ledgerIdentifiers.ts'
import { bookListsContract } from './ledgerLists.ts'
import { bookSalesContract } from './ledgerSales.ts'

const nothingYet = {
  state: 'claimed',
  attempt: null,
  hasResponse: false,
  transaction: null,
  event: null,
  block: null,
  chargedAtomic: null,
  errorReason: null,
  tries: 0,
  dueReason: null,
}

/** What every implementation of the port Books keeps. `make` gives a store of its own, empty, to each test. */
export function ledgerContract(t: Test, make: (t: Test) => Promise<LedgerUnderTest>): void {
  bookSalesContract(t, make)
  bookListsContract(t, make)
  ledgerIdentifiersContract(t, make)

  t.test('a payment is claimed once, and the loser sees the row that has it', async (t) => {
    const { ledger } = await make(t)
    const claim = sampleClaim('k1')
    const first = await ledger.claim(claim)
    if (!first.won) return t.fail('the payment was already claimed')
    const other = { lease: 9, purchaseId: 'other', requestHash: 'other', payload: 'x' }
    t.strictSame(await ledger.claim({ ...claim, ...other }), {
      won: false,
      record: { ...claim, ...nothingYet, row: first.row, claimedAtMs: startMs, updatedAtMs: startMs },
    })
  })

  t.test('the states of many payments are read in one query; unclaimed payments are left out', async (t) => {
    const { ledger } = await make(t)
    const [held, sent] = [sampleClaim('held'), sampleClaim('sent')]
    await claimed({ ledger }, held)
    const row = await claimed({ ledger }, sent)
    t.ok(await ledger.apply(change(sent, row, 'claimed', 'settling', { attempt, lease: 7 })))
    const keys = [held.key, keyOf('nobody'), sent.key, held.key]
    t.strictSame(
      await ledger.statesOf(keys),
      new Map([
        [held.key, 'claimed'],
        [sent.key, 'settling'],
      ]),
    )
    t.strictSame(await ledger.statesOf([]), new Map())
    const many = Array.from({ length: 40_000 }, (_, i) => keyOf(`unknown-${i}`))
    t.strictSame(await ledger.statesOf([...many, sent.key]), new Map([[sent.key, 'settling']]))
  })

  t.test('of many claims at once one wins, and all know which', async (t) => {
    const { ledger } = await make(t)
    const results = await Promise.all(
      Array.from({ length: 100 }, async (_, i) => ({
        result: await ledger.claim(sampleClaim('k1', { purchaseId: `p${i}` })),
        id: `p${i}`,
      })),
    )
    const winners = results.filter(({ result }) => result.won)
    t.equal(winners.length, 1)
    t.ok(results.every(({ result }) => result.won || result.record.purchaseId === winners[0]!.id))
  })

  t.test('a rejected payment is taken over whole by the next claim, under its row', async (t) => {
    const { ledger, clock } = await make(t)
    const first = sampleClaim('k1')
    const row = await claimed({ ledger }, first)
    await ledger.apply(change(first, row, 'claimed', 'settling', { attempt, response, lease: 7 }))
    t.ok(
      await ledger.apply(change(first, row, 'settling', 'rejected', { errorReason: 'why', response: null })),
    )
    t.match(await ledger.find(first.key), { errorReason: 'why', lease: null, hasResponse: false })
    clock.nowMs += 1_000
    const second = sampleClaim('k1', {
      lease: 8,
      linkId: 'link-2',
      storeId: 'store-2',
      requestHash: 'r2',
      purchaseId: 'p2',
      ...{ payload: '{"second":true}', amountAtomic: 5n, payTo: '0x33', validBeforeMs: startMs + 9_000 },
      scheme: 'upto',
    })
    t.strictSame(await ledger.claim(second), { won: true, row })
    const times = { claimedAtMs: startMs + 1_000, updatedAtMs: startMs + 1_000 }
    t.strictSame(await ledger.find(second.key), { ...second, ...nothingYet, row, ...times })
    t.equal(
      await ledger.apply(change(first, row, 'claimed', 'settling')),
      false,
      'a change of the claim before',
    )
  })

  t.test('amounts, times and bytes come back exactly, however large', async (t) => {
    const { ledger } = await make(t)
    const facts = { amountAtomic: 2n ** 256n - 1n, validBeforeMs: Number.MAX_SAFE_INTEGER }
    const claim = sampleClaim('k1', facts)
    const row = await claimed({ ledger }, claim)
    const body = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const settled = { transaction: '0xAa', event: '3', block: 2 ** 40, chargedAtomic: 2n ** 255n }
    await ledger.apply(
      change(claim, row, 'claimed', 'settled', { attempt, response: { ...response, body }, settled }),
    )
    t.match(await ledger.find(claim.key), { ...facts, ...settled, attempt, hasResponse: true })
    const stored = await ledger.responseOf(row)
    t.match(stored, { status: response.status, headers: response.headers })
    t.ok(body.equals(stored!.body))
    await t.rejects(ledger.claim(sampleClaim('k2', { validBeforeMs: Number.POSITIVE_INFINITY })), RangeError)
    await t.rejects(ledger.claim(sampleClaim('k2', { validBeforeMs: 0.5 })), RangeError)
    await t.rejects(ledger.claim({ ...claim, key: 'short' }), RangeError)
    t.equal(await ledger.find(keyOf('k2')), undefined)
    t.equal(await ledger.responseOf(row + 1_000), undefined)
  })

  t.test('a change happens whole when every condition holds, else not at all', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const before = await under.ledger.find(claim.key)
    const more = { lease: 7, attempt, response, errorReason: 'x', takenBy: 9, dueInMs: 0 } as const
    const refused = [
      change(claim, row, 'settling', 'settling', more),
      change(claim, row, [], 'settling', more),
      change(claim, row, 'claimed', 'settling', { ...more, lease: 8 }),
      change({ purchaseId: 'other' }, row, 'claimed', 'settling', more),
      change(claim, row + 1_000, 'claimed', 'settling', more),
    ]
    for (const one of refused) t.equal(await under.ledger.apply(one), false)
    t.strictSame(await under.ledger.applyAll(refused), Array(5).fill(false))
    t.strictSame(await under.ledger.find(claim.key), before)
    t.equal(await under.ledger.responseOf(row), undefined)
    t.strictSame(await under.ledger.due({ states: ['claimed', 'settling'], limit: 9 }), [])
    under.clock.nowMs += 5
    t.equal(await under.ledger.apply(change(claim, row, ['pending', 'claimed'], 'settling', more)), true)
    t.match(await under.ledger.find(claim.key), {
      state: 'settling',
      attempt,
      hasResponse: true,
      errorReason: 'x',
      lease: 9,
      updatedAtMs: startMs + 5,
    })
  })

  t.test('what a change does not name stays; null forgets it', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const apply = (more: object) =>
      under.ledger.apply(change(claim, row, ['claimed', 'settling'], 'settling', more))
    const find = () => under.ledger.find(claim.key)
    await apply({ attempt, response, errorReason: 'x', settled: facts })
    await apply({})
    t.match(await find(), { attempt, hasResponse: true, errorReason: 'x', lease: 7, ...facts })
    await apply({ attempt: { ...attempt, bytes: '0x02', transaction: '0xother' } })
    t.match(await find(), { attempt: { bytes: '0x02', transaction: '0xother' } })
    await apply({ response: { ...response, status: 204, body: Buffer.alloc(0) } })
    t.match(await under.ledger.responseOf(row), { status: 204 })
    await apply({ attempt: null, response: null, errorReason: null, takenBy: null })
    t.match(await find(), { attempt: null, hasResponse: false, errorReason: null, lease: null })
    t.equal(await under.ledger.responseOf(row), undefined)
  })

  t.test('old answers go, however large they are and however many', async (t) => {
    const under = await make(t)
    const body = { small: Buffer.alloc(10), large: Buffer.alloc(3_000_000) }
    for (let i = 0; i < 212; i++) {
      const claim = sampleClaim(`k${i}`)
      const own = { ...response, body: i < 3 || i === 210 ? body.large : body.small }
      await under.ledger.apply(
        change(claim, await claimed(under, claim), 'claimed', 'delivered', { response: own }),
      )
    }
    t.equal(await under.ledger.forgetResponses(startMs + 1, 211), 211)
    t.equal(await under.ledger.forgetResponses(startMs + 1, 211), 1)
    t.equal(await under.ledger.forgetResponses(startMs + 1, 211), 0)
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
      await under.ledger.apply(change(claim, row, 'claimed', to, { response }))
    }
    const left = async () => {
      const kept = await Promise.all(
        [...rows].map(async ([name, row]) => (await under.ledger.responseOf(row)) && name),
      )
      return kept.filter(Boolean)
    }
    t.equal(await under.ledger.forgetResponses(startMs, 10), 0)
    t.equal(await under.ledger.forgetResponses(startMs + 5, 1), 1)
    t.equal(await under.ledger.forgetResponses(startMs + 5, 10), 1)
    t.strictSame(await left(), ['k2', 'k3', 'k4'])
    t.equal(await under.ledger.forgetResponses(startMs + 6, 10), 1)
    t.strictSame(await left(), ['k2', 'k3'])
    t.match(await under.ledger.find(keyOf('k1')), { state: 'delivered', hasResponse: false })
  })

  t.test(
    'what was signed goes when nothing has to be sent for it any more; what finds it on chain stays',
    async (t) => {
      const under = await make(t)
      const settled = { transaction: '0xaa', event: '1', block: 1, chargedAtomic: 1n }
      const signed = { settler: 's', bytes: '0x1', transaction: '0xaa', sequence: null }
      const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
      const put = async (
        name: string,
        to: PaymentState,
        more: Partial<PaymentChange> = {},
        about: Partial<ClaimRequest> = {},
      ) => {
        const claim = sampleClaim(name, about)
        const row = await claimed(under, claim)
        await under.ledger.apply(change(claim, row, 'claimed', to, { attempt: signed, settled, ...more }))
        return row
      }
      await put('sold', 'delivered')
      await put('watched', 'delivered', { dueInMs: 5 })
      await put('settling', 'settling')
      await put('owed', 'refund_due')
      await put('lost', 'failed_final')
      await put('unnamed', 'delivered', { settled: { ...settled, transaction: null } })
      await put('back', 'refunded')
      await put('refused', 'rejected', { attempt: null })
      await put('ours', 'delivered', {}, { network: solana })
      await put('theirs', 'delivered', { attempt: { ...signed, bytes: '' } }, { network: solana })
      under.clock.nowMs += 1_000
      const last = await put('young', 'delivered')
      const kept = async () => {
        const names = 'sold watched settling owed lost unnamed back refused ours theirs young'.split(' ')
        const records = await Promise.all(names.map((name) => under.ledger.find(keyOf(name))))
        return records.map((r) => [r!.nonce.slice(2), r!.payload !== '{}', r!.attempt !== null].join(' '))
      }
      const before = await kept()
      t.equal(await under.ledger.forgetSigned(startMs, 0, 100), 0, 'nothing is old enough')
      t.strictSame(await kept(), before)
      const first = await under.ledger.forgetSigned(startMs + 1, 0, 2)
      t.ok(first > 0)
      let at = first
      for (let next = at; next > 0; next = await under.ledger.forgetSigned(startMs + 1, at, 2)) at = next
      t.ok(at < last)
      t.strictSame(await kept(), [
        ...[
          'sold false false',
          'watched true true',
          'settling true true',
          'owed true true',
          'lost true true',
        ],
        ...['unnamed true true', 'back false false', 'refused false false', 'ours false true'],
        ...['theirs true true', 'young true true'],
      ])
      t.match(await under.ledger.find(keyOf('sold')), {
        state: 'delivered',
        transaction: '0xaa',
        chargedAtomic: 1n,
      })
      t.match(await under.ledger.claim(sampleClaim('sold')), { won: false, record: { state: 'delivered' } })
      under.clock.nowMs += 1_000
      t.match(await under.ledger.claim(sampleClaim('refused', { payload: '{"anew":1}' })), { won: true })
      t.equal(await under.ledger.forgetSigned(startMs + 1_001, 0, 100), last)
      t.equal(
        (await kept()).at(-1),
        'young false false',
        'one before it that was claimed later, or by a clock that was ahead, keeps nothing',
      )
      t.match(await under.ledger.find(keyOf('refused')), { state: 'claimed', payload: '{"anew":1}' })
    },
  )

  t.test(
    'answers that were delivered go by the age of their claim, in passes; all others and all rows stay',
    async (t) => {
      const under = await make(t)
      const rows = new Map<string, number>()
      const put = async (name: string, to: PaymentState, body = response.body) => {
        const claim = sampleClaim(name)
        const row = await claimed(under, claim)
        rows.set(name, row)
        await under.ledger.apply(change(claim, row, 'claimed', to, { response: { ...response, body } }))
        return row
      }
      const left = async () => {
        const kept = await Promise.all(
          [...rows].map(async ([name, row]) => (await under.ledger.responseOf(row)) && name),
        )
        return kept.filter(Boolean)
      }
      /** One pass, two rows at a time. @returns the last row that it looked at */
      const pass = async (claimedBeforeMs: number) => {
        let at = 0
        for (let next = -1; next !== 0; at = next || at)
          next = await under.ledger.forgetDelivered(claimedBeforeMs, at, 2)
        return at
      }
      for (const state of ['settling', 'pending', 'settled', 'delivered', 'refund_due', 'refunded'] as const)
        await put(state, state)
      await put('large', 'delivered', Buffer.alloc(5_000_000))
      const last = await put('another', 'delivered')
      const young = await claimed(under, sampleClaim('refused'))
      await under.ledger.apply(change(sampleClaim('refused'), young, 'claimed', 'rejected'))
      under.clock.nowMs = startMs + 10
      const before = await left()
      t.equal(await under.ledger.forgetDelivered(startMs, 0, 100), 0, 'nothing is old enough')
      t.strictSame(await left(), before)

      t.equal(await pass(startMs + 1), last)
      const owed = ['settling', 'pending', 'settled', 'refund_due', 'refunded']
      t.strictSame(await left(), owed)
      t.match(await under.ledger.find(keyOf('large')), { state: 'delivered', hasResponse: false })
      t.match(await under.ledger.claim(sampleClaim('large')), { won: false, record: { state: 'delivered' } })

      // Claimed again, in a row that is older than the next one; and delivered after the pass had gone by.
      await put('refused', 'delivered')
      under.clock.nowMs = startMs + 5
      const next = await put('next', 'delivered')
      const settled = sampleClaim('settled')
      await under.ledger.apply(change(settled, rows.get('settled')!, 'settled', 'delivered'))
      t.equal(await pass(startMs + 6), next)
      t.strictSame(
        await left(),
        [...owed.filter((name) => name !== 'settled'), 'refused'],
        'one before it that was claimed later stays, and keeps nothing',
      )
      t.equal(await pass(startMs + 11), young)
      t.strictSame(
        await left(),
        owed.filter((name) => name !== 'settled'),
      )
    },
  )

  t.test('a response is returned byte for byte, regardless of its size and its buffer', async (t) => {
    const memory = Buffer.alloc(
      100_000,
      Uint8Array.from({ length: 256 }, (_, i) => i),
    )
    const under = await make(t)
    for (const length of [0, 1, 255, 256, 16_383, 16_384, 16_385, 60_000]) {
      const claim = sampleClaim(`k${length}`)
      const row = await claimed(under, claim)
      const body = memory.subarray(7, 7 + length)
      await under.ledger.apply(
        change(claim, row, 'claimed', 'delivered', { response: { ...response, body } }),
      )
      t.ok(body.equals((await under.ledger.responseOf(row))!.body), `${length} bytes`)
    }
  })

  t.test('one answer that many ask for at once is one answer', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const body = Buffer.alloc(5_000_000, 'a')
    await under.ledger.apply(change(claim, row, 'claimed', 'delivered', { response: { ...response, body } }))
    const got = await Promise.all(Array.from({ length: 64 }, () => under.ledger.responseOf(row)))
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
