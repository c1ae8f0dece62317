import { notCollected, openStates, paymentStates, sessionOver } from '../../core/domain/payment.ts'
import type { PaymentChange, SessionMove } from '../../core/ports/store/books.ts'
import type { Plant } from './plant.ts'
import { sharedKeyPlants } from './sharedKeyPlants.ts'

const changing = (spoil: (change: PaymentChange) => PaymentChange): Required<Pick<Plant, 'books'>> => ({
  books: (books) => ({
    ...books,
    apply: (change) => books.apply(spoil(change)),
    applyAll: (changes) => books.applyAll(changes.map(spoil)),
  }),
})

const leavesPending = changing((change) => (change.to === 'pending' ? { ...change, dueInMs: null } : change))

const without = (change: PaymentChange, does: SessionMove['does']): PaymentChange => {
  const { session, ...rest } = change
  return session?.does === does ? rest : change
}

export const plants = {
  ...sharedKeyPlants,
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
  'what is sent for a session does not hold it': changing((change) => without(change, 'take')),
  'what lands for a session is booked and confirms nothing': changing((change) => without(change, 'confirm')),
  'what can never land holds its session for ever': changing((change) => without(change, 'fail')),
  'what was not sent holds its session for ever': changing((change) => without(change, 'release')),
  'what its buyer hung up on is owed back': changing((change) => {
    const { errorReason, ...rest } = change
    return errorReason === notCollected ? rest : change
  }),
  'nobody hears that a session is confirmed': changing((change) =>
    change.tells === undefined
      ? change
      : { ...change, tells: change.tells.filter(({ kind }) => kind !== 'payment.confirmed') },
  ),
  'a transfer that comes too late is not owed': changing((change) =>
    change.errorReason === sessionOver && change.purchase !== undefined
      ? { ...change, to: 'delivered', purchase: { ...change.purchase, status: 'delivered' } }
      : change,
  ),
} satisfies Readonly<Record<string, Plant>>

export type PlantName = keyof typeof plants
