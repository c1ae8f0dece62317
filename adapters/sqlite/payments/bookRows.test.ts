import t from 'tap'
import type { ClaimRequest } from '../../../core/ports/books.ts'
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
