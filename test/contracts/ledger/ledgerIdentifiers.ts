import fc from 'fast-check'
import type { Test } from 'tap'
import { type PaymentState, paymentStates, unchargedStates } from '../../../core/domain/payment.ts'
import type { ClaimRequest } from '../../../core/ports/store/ledger.ts'
import { change, claimed, keyOf, type LedgerUnderTest, sampleClaim, startMs } from '../samples.ts'

const identifier = 'pay_7d5d747be160e280504c099d984bcfe0'

/** What every implementation keeps of the ids that buyers give their payments. */
export function ledgerIdentifiersContract(t: Test, make: (t: Test) => Promise<LedgerUnderTest>): void {
  t.test('a second payment with the identifier loses to the first one, and no row is made', async (t) => {
    const { ledger } = await make(t)
    const first = sampleClaim('k1', { identifier })
    const row = await claimed({ ledger }, first)
    const lost = { won: false, record: { key: first.key, row, purchaseId: first.purchaseId } }
    t.match(await ledger.claim(sampleClaim('k2', { identifier })), lost)
    t.equal(await ledger.find(keyOf('k2')), undefined)
    t.match(await ledger.claim({ ...first, purchaseId: 'again' }), lost, 'and so does the same payment')
    const { identifier: _, ...without } = first
    t.match(await ledger.claim(without), lost, 'with its identifier or without')
    t.match(await ledger.claim({ ...first, identifier: 'another-identifier' }), lost)
    const other = sampleClaim('k3', { identifier: 'another-identifier' })
    t.match(await ledger.claim(other), { won: true }, 'what the first payment was sent with later is free')
  })

  t.test('an identifier is its payer’s, on one network, and its case counts', async (t) => {
    const { ledger } = await make(t)
    await claimed({ ledger }, sampleClaim('k1', { identifier }))
    const others: readonly (readonly [string, Partial<ClaimRequest>])[] = [
      ['k2', { payer: '0x9999999999999999999999999999999999999999' }],
      ['k3', { payer: '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T' }],
      ['k4', { network: 'eip155:8453' }],
      ['k5', { identifier: identifier.toUpperCase() }],
    ]
    for (const [name, more] of others)
      t.match(await ledger.claim(sampleClaim(name, { identifier, ...more })), { won: true }, name)
    for (let n = 0; n < 3; n++) t.match(await ledger.claim(sampleClaim(`none-${n}`)), { won: true })
  })

  t.test(
    'a payment that has charged nothing gives its identifier to the next one, in every state',
    async (t) => {
      const { ledger } = await make(t)
      for (const state of paymentStates) {
        const mine = { identifier: `an-identifier-of-${state}` }
        const [first, next] = [sampleClaim(`first-${state}`, mine), sampleClaim(`next-${state}`, mine)]
        const row = await claimed({ ledger }, first)
        if (state !== 'claimed') await ledger.apply(change(first, row, 'claimed', state))
        const second = await ledger.claim(next)
        const isFree = (unchargedStates as readonly PaymentState[]).includes(state)
        if (!isFree) {
          t.match(second, { won: false, record: { key: first.key, state } }, state)
          continue
        }
        t.match(second, { won: true }, state)
        t.match(await ledger.find(first.key), { state }, 'the first one is as it was')
        const back = await ledger.claim({ ...first, purchaseId: 'back' })
        const { key } = state === 'rejected' ? next : first
        t.match(back, { won: false, record: { key } }, `${state}: the identifier is the second one's now`)
        t.match(await ledger.find(first.key), { state })
      }
    },
  )

  t.test('a rejected payment keeps its identifier when it is claimed again, or takes another', async (t) => {
    const { ledger } = await make(t)
    const first = sampleClaim('k1', { identifier })
    const row = await claimed({ ledger }, first)
    await ledger.apply(change(first, row, 'claimed', 'rejected'))
    t.strictSame(await ledger.claim({ ...first, purchaseId: 'p2' }), { won: true, row })
    t.match(await ledger.claim(sampleClaim('k2', { identifier })), { won: false, record: { row } })
    await ledger.apply(change({ purchaseId: 'p2' }, row, 'claimed', 'rejected'))
    t.match(await ledger.claim({ ...first, purchaseId: 'p3', identifier: 'another-identifier' }), {
      won: true,
    })
    t.match(
      await ledger.claim(sampleClaim('k2', { identifier })),
      { won: true },
      'which frees the former one',
    )
  })

  t.test('of many payments at once with one identifier one is claimed, and all know which', async (t) => {
    const { ledger } = await make(t)
    const claims = Array.from({ length: 60 }, (_, i) =>
      i % 3 === 2
        ? sampleClaim(`plain-${i}`)
        : sampleClaim(`k${i}`, { identifier: `${identifier}-${i % 2}` }),
    )
    const results = await Promise.all(claims.map((claim) => ledger.claim(claim)))
    const winners = new Set(claims.filter((_, i) => results[i]!.won).map(({ key }) => key))
    t.equal(winners.size, 22, 'twenty without an identifier, and one for each of the two')
    for (const [i, result] of results.entries()) {
      if (result.won) continue
      t.ok(winners.has(result.record.key))
      t.equal(claims.find(({ key }) => key === result.record.key)!.identifier, claims[i]!.identifier)
    }
  })

  t.test('an identifier is forgotten with what was signed, not before', async (t) => {
    const under = await make(t)
    const first = sampleClaim('k1', { identifier })
    const row = await claimed(under, first)
    const settled = { transaction: '0xaa', event: '0', block: 1, chargedAtomic: 1n }
    await under.ledger.apply(change(first, row, 'claimed', 'delivered', { settled }))
    under.clock.nowMs += 1_000
    const second = sampleClaim('k2', { identifier })
    t.equal(await under.ledger.forgetSigned(startMs, 0, 10), 0)
    t.match(await under.ledger.claim(second), { won: false, record: { row } })
    t.equal(await under.ledger.forgetSigned(startMs + 1, 0, 10), row)
    t.match(await under.ledger.claim(second), { won: true })
    t.match(await under.ledger.claim(first), { won: false, record: { row, state: 'delivered' } })
  })

  t.test('after any history, each identifier is that of one payment', async (t) => {
    const under = await make(t)
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), (steps) => follow(under, `r${run++}`, steps)),
      { numRuns: 25 },
    )
  })
}

const step = fc.record({
  name: fc.constantFrom('a', 'b', 'c'),
  identifier: fc.constantFrom(undefined, 'x', 'y'),
  /** The state to which the payment goes, or undefined: it is claimed. */
  to: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: fc.constantFrom(...paymentStates) },
  ),
})

interface Row {
  readonly purchaseId: string
  state: PaymentState
  identifier: string | undefined
}

/** Does the same with a map. @throws where the ledger differs from it */
async function follow(
  { ledger }: LedgerUnderTest,
  prefix: string,
  steps: readonly {
    readonly name: string
    readonly identifier: string | undefined
    readonly to: PaymentState | undefined
  }[],
): Promise<void> {
  const rows = new Map<string, Row>()
  const names = new Map(['a', 'b', 'c'].map((name) => [keyOf(`${prefix}${name}`), name]))
  const holderOf = (identifier: string | undefined, name: string) =>
    [...rows].find(
      ([other, row]) => identifier !== undefined && other !== name && row.identifier === identifier,
    )
  for (const [n, { name, identifier, to }] of steps.entries()) {
    const own = rows.get(name)
    if (to !== undefined) {
      if (own === undefined) continue
      const { row } = (await ledger.find(keyOf(`${prefix}${name}`)))!
      await ledger.apply(change(own, row, own.state, to))
      own.state = to
      continue
    }
    const purchaseId = `${prefix}-${n}`
    const id = identifier === undefined ? {} : { identifier: `${prefix}-${identifier}-0123456789` }
    const result = await ledger.claim(sampleClaim(`${prefix}${name}`, { purchaseId, ...id }))
    const said = result.won ? 'won' : names.get(result.record.key)
    if (said !== expected()) throw new Error(`Step ${n}: expected ${expected()}, got ${said}.`)
    if (!result.won) continue
    const holder = holderOf(identifier, name)
    if (holder !== undefined) holder[1].identifier = undefined
    rows.set(name, { purchaseId, state: 'claimed', identifier })

    function expected(): string {
      if (own !== undefined && own.state !== 'rejected') return name
      const holder = holderOf(identifier, name)
      const isFree = holder === undefined || (unchargedStates as readonly string[]).includes(holder[1].state)
      return isFree ? 'won' : holder[0]
    }
  }
}
