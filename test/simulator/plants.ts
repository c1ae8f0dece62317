import { openStates, paymentStates } from '../../core/domain/payment.ts'
import type { PaymentChange } from '../../core/ports/books.ts'
import type { Plant } from './plant.ts'

const changing = (spoil: (change: PaymentChange) => PaymentChange): Required<Pick<Plant, 'books'>> => ({
  books: (books) => ({
    ...books,
    apply: (change) => books.apply(spoil(change)),
    applyAll: (changes) => books.applyAll(changes.map(spoil)),
  }),
})

const leavesPending = changing((change) => (change.to === 'pending' ? { ...change, dueInMs: null } : change))

export const plants = {
  'a claim is not unique': {
    books: (books) => ({
      ...books,
      async claim(request) {
        const result = await books.claim(request)
        if (result.won || result.record.state !== 'claimed') return result
        return books.claim({
          ...request,
          key: request.key.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
        })
      },
    }),
  },
  'a claim is given to whoever asks while nothing is sent': {
    books: (books) => ({
      ...books,
      async claim(request) {
        const result = await books.claim(request)
        if (result.won || result.record.state !== 'claimed') return result
        const { row, purchaseId, lease } = result.record
        const to = 'rejected'
        await books.apply({
          row,
          purchaseId,
          lease,
          from: ['claimed'],
          to,
          dueInMs: null,
          durability: 'visible',
        })
        return books.claim(request)
      },
    }),
  },
  'a sale is booked whatever the row says': changing((change) =>
    change.to === 'settled' && change.purchase !== undefined
      ? { ...change, from: paymentStates, lease: null }
      : change,
  ),
  'what is withdrawn is not on disk when its buyer hears of it': changing((change) =>
    change.to === 'rejected' ? { ...change, durability: 'visible' } : change,
  ),
  'what is sent is not on disk': changing((change) =>
    change.to === 'settling' ? { ...change, durability: 'visible' } : change,
  ),
  'what is charged first is not on disk when the seller works': changing((change) =>
    change.to === 'settled' ? { ...change, durability: 'visible' } : change,
  ),
  'a process takes rows of its own calls for abandoned': {
    isNothingUnderWay: true,
    books: (books) => ({
      ...books,
      async adopt(lease, states, limit) {
        const rows = await books.list({ states: openStates, limit: 100 })
        const own = rows.filter((row) => row.lease === lease.id)
        await books.putOff(own.map(({ row, state }) => ({ row, state, afterMs: 0, tries: 0 })))
        return books.adopt(lease, states, limit)
      },
    }),
  },
  'a purchase is unique by its transaction only': changing((change) =>
    change.settled === undefined ? change : { ...change, settled: { ...change.settled, event: '0' } },
  ),
  'nobody adopts what dead processes left': {
    books: (books) => ({ ...books, adopt: async () => 0 }),
  },
  'what is owed is looked at no more': changing((change) =>
    change.to === 'refund_due' ? { ...change, dueInMs: null } : change,
  ),
  // A buyer who comes back has it looked at, and would make up for it.
  'what is sent and not known yet is left to nobody': {
    books: (books) => ({
      ...leavesPending.books(books),
      putOff: (rows) => books.putOff(rows.filter(({ afterMs }) => afterMs !== 0)),
    }),
  },
} satisfies Readonly<Record<string, Plant>>

export type PlantName = keyof typeof plants
