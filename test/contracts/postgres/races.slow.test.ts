import pg from 'pg'
import t from 'tap'
import { lockOfIdentifier, lockOfKey } from '../../../adapters/store/postgres/ledger/changeRow.ts'
import { claimRow } from '../../../adapters/store/postgres/ledger/groupCommit.ts'
import { entriesOfRefund } from '../../../core/domain/ledger.ts'
import type { Lease } from '../../../core/ports/store/leases.ts'
import type { ClaimRequest } from '../../../core/ports/store/ledger.ts'
import { checkedLedger } from '../../helpers/checkedLedger.ts'
import { turned } from '../rotated.ts'
import { change, claimed, saleOf, sampleAttempt, sampleClaim, samplePurchase, sell } from '../samples.ts'
import { sessionRace } from '../sessions/sessionRace.ts'
import { databaseUrl, makeTwo, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test(
  'one payment, a hundred times at once, over two stores: one wins, and all know which',
  { skip },
  async (t) => {
    const stores = await makeTwo(t)
    for (let round = 0; round < 10; round++) {
      const responses = await Promise.all(
        Array.from({ length: 100 }, async (_, i) => {
          const claim = sampleClaim(`contested-${round}`, { purchaseId: `p${round}-${i}` })
          const result = await stores[i % 2]!.ledger.claim(claim)
          return { won: result.won, purchaseId: result.won ? claim.purchaseId : result.record.purchaseId }
        }),
      )
      const winners = responses.filter(({ won }) => won)
      t.equal(winners.length, 1)
      t.ok(responses.every(({ purchaseId }) => purchaseId === winners[0]!.purchaseId))
    }
  },
)

t.test('a payment that was given back is claimed anew by one of two stores', { skip }, async (t) => {
  const stores = await makeTwo(t)
  for (let round = 0; round < 15; round++) {
    const claim = sampleClaim(`again-${round}`)
    const row = await claimed(stores[0], claim)
    await stores[0].ledger.apply(change(claim, row, 'claimed', 'rejected'))
    const results = await Promise.all(
      stores.map(({ ledger }, i) => ledger.claim({ ...claim, purchaseId: `p${round}-${i}` })),
    )
    t.strictSame(results.map(({ won }) => won).toSorted(), [false, true])
    const loser = results.find(({ won }) => !won) as { record: { purchaseId: string; state: string } }
    t.equal(loser.record.state, 'claimed')
    t.equal(loser.record.purchaseId, (await stores[0].ledger.find(claim.key))!.purchaseId)
  }
})

t.test(
  'of twenty payments at once with one identifier, over two stores, one is claimed, and all know which',
  { skip },
  async (t) => {
    const stores = await makeTwo(t)
    for (let round = 0; round < 10; round++) {
      const claims = Array.from({ length: 20 }, (_, i) =>
        sampleClaim(`r${round}k${i}`, { identifier: `an-identifier-of-round-${round}` }),
      )
      const results = await Promise.all(claims.map((claim, i) => stores[i % 2]!.ledger.claim(claim)))
      const winner = results.findIndex(({ won }) => won)
      t.equal(results.filter(({ won }) => won).length, 1)
      t.ok(results.every((result) => result.won || result.record.key === claims[winner]!.key))
      const rows = await Promise.all(claims.map(({ key }) => stores[0].ledger.find(key)))
      t.equal(rows.filter((row) => row !== undefined).length, 1, 'the others have no row')
    }
  },
)

/** Claims groups at once, each in a transaction of its own. @throws if two of them deadlock */
async function claimGroups(schema: string, groups: readonly (readonly ClaimRequest[])[]): Promise<void> {
  const clients = groups.map(
    () => new pg.Client({ connectionString: databaseUrl, options: `-c search_path=${schema}` }),
  )
  await Promise.all(clients.map((client) => client.connect()))
  try {
    await Promise.all(
      clients.map((client, i) => {
        const claims = groups[i]!.map((request, n) => ({ n, ...claimRow(request) }))
        const named = claims.filter(({ identifier }) => identifier !== undefined)
        const [shared, alone] = [claims.map(({ key }) => lockOfKey(key)), named.map(lockOfIdentifier)]
        return client.query('SELECT books_claim($1, 0, $2, $3)', [JSON.stringify(claims), shared, alone])
      }),
    )
  } finally {
    await Promise.all(clients.map((client) => client.end()))
  }
}

const upTo40 = Array.from({ length: 40 }, (_, i) => i)

t.test(
  'copies of payments with and without identifiers, in groups at once, do not deadlock',
  { skip },
  async (t) => {
    const [{ schema }] = await makeTwo(t)
    for (let round = 0; round < 20; round++) {
      const groups = [0, 1].map((group) =>
        upTo40.map((i) => {
          const identifier = { identifier: `an-identifier-of-${round}-${i}` }
          return sampleClaim(`r${round}k${i}`, i % 2 === group ? identifier : {})
        }),
      )
      await t.resolves(claimGroups(schema, groups))
    }
  },
)

t.test(
  'refused payments and those that take their identifiers, in groups at once, do not deadlock',
  { skip },
  async (t) => {
    const [store] = await makeTwo(t)
    for (let round = 0; round < 20; round++) {
      const refused = upTo40.map((i) =>
        sampleClaim(`r${round}k${i}`, { identifier: `an-identifier-of-${round}-${i}` }),
      )
      const rows = await Promise.all(refused.map((claim) => claimed(store, claim)))
      await store.ledger.applyAll(refused.map((claim, i) => change(claim, rows[i]!, 'claimed', 'rejected')))
      const next = refused.map(({ identifier }, i) =>
        sampleClaim(`r${round}n${i}`, { identifier: identifier! }),
      )
      const again = refused.map(({ identifier: _, ...claim }) => claim)
      await t.resolves(claimGroups(store.schema, [next, again]))
    }
  },
)

t.test('of the same changes in two stores each is done once', { skip }, async (t) => {
  const stores = await makeTwo(t)
  for (let round = 0; round < 10; round++) {
    const sales = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const claim = sampleClaim(`r${round}k${i}`)
        return { claim, row: await claimed(stores[i % 2]!, claim) }
      }),
    )
    // The one store from the first to the last, the other the other way round.
    const done = await Promise.all(
      stores.map(({ ledger }, which) =>
        Promise.all(
          (which === 0 ? sales : sales.toReversed()).map(({ claim, row }) =>
            ledger.apply(
              change(
                claim,
                row,
                'claimed',
                'settled',
                saleOf(samplePurchase(claim, `0x${claim.purchaseId}`)),
              ),
            ),
          ),
        ),
      ),
    )
    t.equal(done.flat().filter(Boolean).length, sales.length)
  }
  t.match(await checkedLedger(stores[0].purchases), {
    purchases: 200,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test('one event pays for one of two purchases that two stores book at once', { skip }, async (t) => {
  const stores = await makeTwo(t)
  for (let round = 0; round < 15; round++) {
    const results = await Promise.allSettled(
      stores.map((store, i) => sell(store, `r${round}k${i}`, `0xa${round}`)),
    )
    t.strictSame(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
    t.match(
      results.find(({ status }) => status === 'rejected'),
      { reason: { code: 'CONFLICT' } },
    )
  }
  t.match(await stores[0].purchases.ledgerCheck(), { purchases: 15, broken: { length: 0 } })
})

t.test('of two stores that refund by one transaction at once, one does', { skip }, async (t) => {
  const stores = await makeTwo(t)
  for (let round = 0; round < 15; round++) {
    const sold = await Promise.all([0, 1].map((i) => sell(stores[0], `r${round}k${i}`, `0xa${round}${i}`)))
    const results = await Promise.all(
      stores.map(({ ledger }, i) => ledger.apply(refundOf(sold[i]!, `0xb${round}`))),
    )
    t.strictSame(results.toSorted(), [false, true])
  }
  t.match(await stores[1].purchases.ledgerCheck(), {
    purchases: 30,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test(
  'a transaction is a refund or pays for a purchase, whichever of two stores comes first, and never both',
  { skip },
  async (t) => {
    const stores = await makeTwo(t)
    for (let round = 0; round < 30; round++) {
      const back = `0xb${round}`
      const sold = await sell(stores[0], `sold-${round}`, `0xa${round}`)
      const claim = sampleClaim(`paying-${round}`)
      const row = await claimed(stores[1], claim)
      const noRefund = { network: claim.network, transaction: back }
      const turns = turned(
        [
          () => stores[0].ledger.apply(refundOf(sold, back)),
          () =>
            stores[1].ledger.apply(
              change(claim, row, 'claimed', 'settled', {
                ...saleOf(samplePurchase(claim, back.toUpperCase().replace('X', 'x'))),
                noRefund,
              }),
            ),
        ],
        round,
      )
      const done = await Promise.all(turns.map((run) => run()))
      t.strictSame(done.toSorted(), [false, true], `one of them, in round ${round}`)
    }
  },
)

t.test(
  'a transaction is a refund, or one of its transfers is claimed, and never both',
  { skip },
  async (t) => {
    const stores = await makeTwo(t)
    let refunds = 0
    for (let round = 0; round < 30; round++) {
      const sold = await sell(stores[0], `sold-${round}`, `0xa${round}`)
      const claim = sampleClaim(`paying-${round}`)
      const turns = turned(
        [
          async () => ({
            refunded: await stores[0].ledger.apply(refundOf(sold, `0xb${round}`, [claim.key])),
          }),
          async () => ({ claimed: await claimed(stores[1], claim) }),
        ],
        round,
      )
      const done = await Promise.all(turns.map((run) => run()))
      // A claim comes after the refund, or before it: then the refund must have seen it.
      const isRefunded = done.some((one) => 'refunded' in one && one.refunded)
      if (isRefunded) refunds++
      const noRefund = { network: claim.network, transaction: `0xb${round}` }
      const { row } = (await stores[0].ledger.find(claim.key))!
      const sale = saleOf(samplePurchase(claim, `0xb${round}`))
      const pays = await stores[1].ledger.apply(
        change(claim, row, 'claimed', 'settled', { ...sale, noRefund }),
      )
      t.equal(pays, !isRefunded)
    }
    t.comment(`${refunds} were refunds`)
  },
)

t.test('one number of a settling key is signed with by one of two stores', { skip }, async (t) => {
  const stores = await makeTwo(t)
  for (let round = 0; round < 20; round++) {
    const begun = await Promise.allSettled(
      stores.map(async ({ ledger }, i) => {
        const claim = sampleClaim(`r${round}k${i}`)
        const row = await claimed({ ledger }, claim)
        const attempt = { ...sampleAttempt, sequence: String(round), transaction: `0x${round}${i}` }
        return ledger.apply(change(claim, row, 'claimed', 'settling', { attempt, durability: 'flushed' }))
      }),
    )
    t.strictSame(begun.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
    t.match(
      begun.find(({ status }) => status === 'rejected'),
      { reason: { code: 'CONFLICT' } },
    )
  }
})

t.test('of two stores one begins to pay a session, or cancels it, and never both', { skip }, async (t) =>
  sessionRace(t, await makeTwo(t)),
)

t.test(
  'what somebody left is taken over by one of two, row by row, and only its taker can write it',
  { skip },
  async (t) => {
    const stores = await makeTwo(t)
    const mine = (await Promise.all(stores.map(({ leases }, i) => leases.take(`process:${i}`, 600_000)))) as [
      Lease,
      Lease,
    ]
    for (let round = 0; round < 8; round++) {
      const gone = (await stores[0].leases.take(`gone:${round}`, 1_000))!
      const claims = Array.from({ length: 30 }, (_, i) => sampleClaim(`r${round}k${i}`, { lease: gone.id }))
      const rows = await Promise.all(claims.map((claim) => claimed(stores[0], claim)))
      for (const store of stores) store.storeClock.nowMs += 1_001
      // A process that was declared dead may still be alive: it writes meanwhile.
      const [own, ...taken] = await Promise.all([
        Promise.all(
          claims.map((claim, i) =>
            stores[0].ledger.apply(change(claim, rows[i]!, 'claimed', 'settling', { lease: gone.id })),
          ),
        ),
        ...stores.map(({ ledger }, i) => ledger.adopt(mine[i]!, ['claimed', 'settling'], 100)),
      ])
      const more = await Promise.all(
        stores.map(({ ledger }, i) => ledger.adopt(mine[i]!, ['claimed', 'settling'], 100)),
      )
      t.equal(
        [...taken, ...more].reduce((sum, n) => sum + n, 0),
        claims.length,
        'each once',
      )
      for (const [i, claim] of claims.entries()) {
        const record = (await stores[1].ledger.find(claim.key))!
        t.ok(mine.some(({ id }) => id === record.lease))
        t.equal(record.state, own[i] ? 'settling' : 'claimed')
        const late = change(claim, rows[i]!, ['claimed', 'settling'], 'settling', { lease: gone.id })
        t.equal(await stores[0].ledger.apply(late), false)
      }
    }
  },
)

t.test('of two stores that want one name at once one has it, and numbers only grow', { skip }, async (t) => {
  const stores = await makeTwo(t)
  let largest = 0
  for (let round = 0; round < 20; round++) {
    const taken = await Promise.all(
      Array.from({ length: 10 }, (_, i) => stores[i % 2]!.leases.take('recovery', 10_000)),
    )
    const [lease, ...others] = taken.filter((one) => one !== undefined)
    t.strictSame(others, [])
    t.ok(lease!.id > largest)
    largest = lease!.id
    await stores[round % 2]!.leases.release(lease!)
  }
})

function refundOf(
  { claim, row, purchase }: Awaited<ReturnType<typeof sell>>,
  transaction: string,
  keys: string[] = [],
) {
  return change(claim, row, 'settled', 'refunded', {
    purchaseStatus: 'refunded',
    entries: entriesOfRefund(purchase),
    refund: { network: purchase.network, transaction, paymentKeys: keys },
    durability: 'flushed',
  })
}
