import fc from 'fast-check'
import t from 'tap'
import { entriesText, type LedgerEntry, toEntries } from '../../../../core/domain/ledger.ts'
import type { ClaimRequest } from '../../../../core/ports/store/ledger.ts'
import { bodyBytes, claimValues, responseValues } from './ledgerOperations.ts'

/** Node's small buffers share one pool, and a buffer crosses to the writer's thread with the whole pool. */
t.test('what crosses to the writer takes no more memory along than it needs', async (t) => {
  const pool = Buffer.alloc(100_000, 1)
  const request = { key: '00'.repeat(32), amountAtomic: 1n } as ClaimRequest
  const crossing = [
    claimValues(request, 0),
    ...[0, 100, 16_384, 16_385, 99_999].map((length) =>
      responseValues({ status: 200, headers: [], body: pool.subarray(1, 1 + length) }),
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

t.test('ledger entries are read back as they were written, of one asset or of several', async (t) => {
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
  for (const torn of ['["n","a",["sale","x"]]', '["n"', '7', '[["x"]]']) t.throws(() => toEntries('p', torn))
})
