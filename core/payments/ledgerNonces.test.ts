import t from 'tap'
import type { PaymentRecord } from '../domain/payment.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import { ledgerNonces } from './ledgerNonces.ts'

const network = 'eip155:84532'
const key = `evm:${network}:0xabc`

/** A payment with this nonce, or one whose bytes are deleted. */
const paid = (sequence: string | null, more: Partial<PaymentRecord> = {}) =>
  ({
    network,
    scheme: 'exact',
    state: 'delivered',
    attempt: sequence === null ? null : { settler: key, bytes: '0x', transaction: '0x', sequence },
    ...more,
  }) as PaymentRecord

const noncesOf = (newestFirst: readonly PaymentRecord[]) => {
  const list: Ledger['list'] = async ({ limit }) => newestFirst.slice(0, limit)
  return ledgerNonces({ list }, network, key)
}

t.test('books that have all they ever had say so', async (t) => {
  t.strictSame(await noncesOf([]), { nonces: new Set(), isComplete: true })
  const others = [
    paid(null, { network: 'eip155:8453' }),
    paid(null, { scheme: 'transfer' }),
    paid('9', { attempt: { settler: 'evm:of another', bytes: '', transaction: '', sequence: '9' } }),
    // Over, and nothing can land.
    paid(null, { state: 'failed_final' }),
  ]
  t.strictSame(await noncesOf([paid('5'), ...others, paid('4')]), {
    nonces: new Set([4, 5]),
    isComplete: true,
  })
})

t.test(
  'books that have forgotten a charged payment’s number, or have more than is read, are not whole',
  async (t) => {
    t.strictSame(await noncesOf([paid('5'), paid(null), paid('4')]), {
      nonces: new Set([5]),
      isComplete: false,
    })
    for (const payments of [999, 1_000, 1_001]) {
      const all = Array.from({ length: payments }, (_, i) => paid(String(5_000 - i)))
      const { nonces, isComplete } = await noncesOf(all)
      t.equal(nonces.size, Math.min(payments, 1_000))
      t.equal(isComplete, payments < 1_000, String(payments))
    }
  },
)
