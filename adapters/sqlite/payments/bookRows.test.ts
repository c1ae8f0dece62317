import fc from 'fast-check'
import t from 'tap'
import type { LedgerEntry } from '../../../core/domain/ledger.ts'
import { entriesText, toEntries } from '../../../core/domain/ledger.ts'
import type { ClaimRequest } from '../../../core/ports/store/books.ts'
import { answerValues, bodyBytes, claimValues } from './bookRows.ts'

/** Node's small buffers are pieces of one pool, and a piece that crosses to the writer's thread takes all of it along. */
t.test('what crosses to the writer takes no more memory along than it needs', async (t) => {
  const pool = Buffer.alloc(100_000, 1)
  const request = { key: '00'.repeat(32), amountAtomic: 1n } as ClaimRequest
  const crossing = [
    claimValues(request, 0),
    ...[0, 100, 16_384, 16_385, 99_999].map((length) =>
      answerValues({ status: 200, headers: [], body: pool.subarray(1, 1 + length) }),
    ),
  ]
  for (const value of crossing.flat()) {
    if (ArrayBuffer.isView(value)) t.equal(value.buffer.byteLength, value.byteLength)
    else t.ok(value === null || value === undefined || ['string', 'number'].includes(typeof value))
  }
  t.ok(crossing.flat().some(ArrayBuffer.isView), 'a large answer is bytes still')
  for (const [i, length] of [0, 100, 16_384, 16_385, 99_999].entries())
    t.strictSame(Buffer.from(bodyBytes(crossing[i + 1]![2]!) as Uint8Array), Buffer.alloc(length, 1))
})

t.test(
  'entries come back as they were written, whatever they are of, and so do those that were written before',
  async (t) => {
    const text = fc.oneof(fc.string({ maxLength: 12 }), fc.constantFrom('a', 'b'))
    const entry: fc.Arbitrary<LedgerEntry> = fc.record({
      purchaseId: fc.constant('p'),
      account: text,
      network: text,
      asset: text,
      amountAtomic: fc.bigInt({ min: -(2n ** 256n), max: 2n ** 256n }),
      kind: fc.constantFrom('sale', 'fee', 'refund'),
    })
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 6 }), fc.boolean(), (some, isOneAsset) => {
        const entries = some.map((e) => ({ ...e, ...(isOneAsset && { network: 'n', asset: 'a' }) }))
        return t.strictSame(toEntries('p', entriesText(entries)), entries)
      }),
    )
    t.strictSame(toEntries('p', '[["buyer:b","n","a","-7","sale"]]'), [
      { purchaseId: 'p', account: 'buyer:b', network: 'n', asset: 'a', amountAtomic: -7n, kind: 'sale' },
    ])
    for (const torn of ['["n","a",["sale","x"]]', '["n"', '7', '[["x"]]'])
      t.throws(() => toEntries('p', torn))
  },
)
