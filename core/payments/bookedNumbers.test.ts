import t from 'tap'
import type { PaymentRecord } from '../domain/payment.ts'
import type { Books } from '../ports/store/books.ts'
import { bookedNumbers } from './bookedNumbers.ts'

const network = 'eip155:84532'
const key = `evm:${network}:0xabc`

/** A payment with this number, or one whose bytes are forgotten. */
const paid = (sequence: string | null, more: Partial<PaymentRecord> = {}) =>
  ({
    ...{ network, scheme: 'exact', state: 'delivered' },
    attempt: sequence === null ? null : { settler: key, bytes: '0x', transaction: '0x', sequence },
    ...more,
  }) as PaymentRecord

const numbersOf = (newestFirst: readonly PaymentRecord[]) => {
  const list: Books['list'] = async ({ limit }) => newestFirst.slice(0, limit)
  return bookedNumbers({ list }, network, key)
}

t.test('books that have all they ever had say so', async (t) => {
  t.strictSame(await numbersOf([]), { numbers: new Set(), isWhole: true })
  const others = [
    paid(null, { network: 'eip155:8453' }),
    paid(null, { scheme: 'transfer' }),
    paid('9', { attempt: { settler: 'evm:of another', bytes: '', transaction: '', sequence: '9' } }),
    // Over, and nothing can land.
    paid(null, { state: 'failed_final' }),
  ]
  t.strictSame(await numbersOf([paid('5'), ...others, paid('4')]), {
    numbers: new Set([4, 5]),
    isWhole: true,
  })
})

t.test(
  'books that have forgotten a charged payment’s number, or have more than is read, are not whole',
  async (t) => {
    t.strictSame(await numbersOf([paid('5'), paid(null), paid('4')]), {
      numbers: new Set([5]),
      isWhole: false,
    })
    for (const payments of [999, 1_000, 1_001]) {
      const all = Array.from({ length: payments }, (_, i) => paid(String(5_000 - i)))
      const { numbers, isWhole } = await numbersOf(all)
      t.equal(numbers.size, Math.min(payments, 1_000))
      t.equal(isWhole, payments < 1_000, String(payments))
    }
  },
)
