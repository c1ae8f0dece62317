import { isSentFirst, type PaymentRecord } from '../../../core/domain/payment.ts'
import type { OpenCall } from '../../../core/payments/openCalls.ts'
import type { SettleOutcome, Settler } from '../../../core/ports/chains/settler.ts'
import type { PaymentChange } from '../../../core/ports/store/ledger.ts'
import { PRICE } from '../buyers.ts'
import type { Plant } from '../plant.ts'

const settler = (change: (own: Settler) => Partial<Settler>): Plant => ({
  settler: (own) => Object.assign(Object.create(own) as Settler, change(own)),
})

const isForNothing = ({ settled }: PaymentChange): boolean => settled?.chargedAtomic === 0n

/** Charges the use of a stream once more, as a process that has found it settled already. */
const chargedAgain = (outcome: SettleOutcome, record: PaymentRecord): SettleOutcome =>
  outcome.status === 'settled' && isSentFirst(record)
    ? { ...outcome, chargedAtomic: 2n * outcome.chargedAtomic }
    : outcome

/** Mistakes about calls that are charged what they have used. */
export const usePlants = {
  'the most is charged instead of the use': {
    settle: (settle) => (paid, response) => settle(paid, response),
  },
  'more than the most is charged': settler((own) => ({
    settle: (payment, terms, ...more) =>
      own.settle(
        payment,
        terms.amount === String(PRICE) ? { ...terms, amount: String(PRICE + 1) } : terms,
        ...more,
      ),
  })),
  'a call that costs nothing is sent to the chain': {
    settle: (settle, own) => async (paid, response, amountAtomic) => {
      if (amountAtomic === 0n) {
        const { payload, terms, identity } = (paid as OpenCall).payment
        await own.settle(payload, { ...terms, amount: '0' }, identity, async () => true)
      }
      return settle(paid, response, amountAtomic)
    },
  },
  'a call that costs nothing is not on disk': {
    ledger: (ledger) => ({
      ...ledger,
      apply: (change) => ledger.apply(isForNothing(change) ? { ...change, durability: 'visible' } : change),
    }),
  },
  'recovery charges the use of a stream again': settler((own) => ({
    async recover(records) {
      const outcomes = await own.recover(records)
      return outcomes.map((outcome, i) => chargedAgain(outcome, records[i]!))
    },
  })),
  'a stream that was sent is not charged': {
    settle: (settle) => (paid, response, amountAtomic) =>
      settle(paid, response, isSentFirst((paid as OpenCall).call) ? 0n : amountAtomic),
  },
} satisfies Readonly<Record<string, Plant>>
