import { notCollected, openStates, paymentStates, sessionOver } from '../../core/domain/payment.ts'
import type { PaymentChange, SessionMove } from '../../core/ports/store/ledger.ts'
import { channelPlants } from './channels/channelPlants.ts'
import type { Plant } from './plant.ts'
import { sharedKeyPlants } from './sharedKeyPlants.ts'
import { usePlants } from './use/usePlants.ts'

const changing = (spoil: (change: PaymentChange) => PaymentChange): Required<Pick<Plant, 'ledger'>> => ({
  ledger: (ledger) => ({
    ...ledger,
    apply: (change) => ledger.apply(spoil(change)),
    applyAll: (changes) => ledger.applyAll(changes.map(spoil)),
  }),
})

const leavesPending = changing((change) => (change.to === 'pending' ? { ...change, dueInMs: null } : change))

const without = (change: PaymentChange, does: SessionMove['does']): PaymentChange => {
  const { session, ...rest } = change
  return session?.does === does ? rest : change
}

export const plants = {
  ...sharedKeyPlants,
  ...usePlants,
  ...channelPlants,
  'a claim is not unique': {
    ledger: (ledger) => ({
      ...ledger,
      async claim(request) {
        const result = await ledger.claim(request)
        if (result.won || result.record.state !== 'claimed') return result
        return ledger.claim({
          ...request,
          key: request.key.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
        })
      },
    }),
  },
  'payments share an identifier': {
    ledger: (ledger) => ({ ...ledger, claim: ({ identifier: _, ...request }) => ledger.claim(request) }),
  },
  'a claim is given to any process while nothing is sent': {
    ledger: (ledger) => ({
      ...ledger,
      async claim(request) {
        const result = await ledger.claim(request)
        if (result.won || result.record.state !== 'claimed') return result
        const { row, purchaseId, lease } = result.record
        const to = 'rejected'
        await ledger.apply({
          row,
          purchaseId,
          lease,
          from: ['claimed'],
          to,
          dueInMs: null,
          durability: 'visible',
        })
        return ledger.claim(request)
      },
    }),
  },
  'a sale is recorded regardless of the row': changing((change) =>
    change.to === 'settled' && change.purchase !== undefined
      ? { ...change, from: paymentStates, lease: null }
      : change,
  ),
  'a withdrawal is not on disk when its buyer is notified': changing((change) =>
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
    ledger: (ledger) => ({
      ...ledger,
      async adopt(lease, states, limit) {
        const rows = await ledger.list({ states: openStates, limit: 100 })
        const own = rows.filter((row) => row.lease === lease.id)
        await ledger.putOff(own.map(({ row, state }) => ({ row, state, afterMs: 0, tries: 0 })))
        return ledger.adopt(lease, states, limit)
      },
    }),
  },
  'a purchase is unique by its transaction only': changing((change) =>
    change.settled === undefined ? change : { ...change, settled: { ...change.settled, event: '0' } },
  ),
  'no process adopts what dead processes left': {
    ledger: (ledger) => ({ ...ledger, adopt: async () => 0 }),
  },
  'what is owed is looked at no more': changing((change) =>
    change.to === 'refund_due' ? { ...change, dueInMs: null } : change,
  ),
  // A buyer who comes back has it looked at, and would make up for it.
  'sent payments with an unknown outcome are left to no process': {
    ledger: (ledger) => ({
      ...leavesPending.ledger(ledger),
      putOff: (rows) => ledger.putOff(rows.filter(({ afterMs }) => afterMs !== 0)),
    }),
  },
  'what is sent for a session does not hold it': changing((change) => without(change, 'take')),
  'what lands for a session is booked and confirms nothing': changing((change) => without(change, 'confirm')),
  'what can never land holds its session for ever': changing((change) => without(change, 'fail')),
  'what was not sent holds its session for ever': changing((change) => without(change, 'release')),
  'a refund is due for a response whose buyer disconnected': changing((change) => {
    const { errorReason, ...rest } = change
    return errorReason === notCollected ? rest : change
  }),
  'no listener is notified that a session is confirmed': changing((change) =>
    change.events === undefined
      ? change
      : { ...change, events: change.events.filter(({ kind }) => kind !== 'payment.confirmed') },
  ),
  'a transfer that comes too late is not owed': changing((change) =>
    change.errorReason === sessionOver && change.purchase !== undefined
      ? { ...change, to: 'delivered', purchase: { ...change.purchase, status: 'delivered' } }
      : change,
  ),
} satisfies Readonly<Record<string, Plant>>

export type PlantName = keyof typeof plants
