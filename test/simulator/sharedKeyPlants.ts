import { deserialize, serialize } from 'node:v8'
import type { SettlementRequest, SettlementResponse } from '../../cli/runtime/settling/settlementServer.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { OwnKey, Settler } from '../../core/ports/chains/settler.ts'
import type { Mailbox, Message } from '../../core/ports/store/mailbox.ts'
import type { Plant } from './plant.ts'

/** What a process hears, with each outcome as that of the payment whose bytes it has stored before. */
function withOutcomesOfBefore(hear: (message: Message) => void): (message: Message) => void {
  const calls: number[] = []
  return (letter) => {
    const message = deserialize(letter.body) as SettlementResponse
    if (message.type === 'store' && !calls.includes(message.call)) calls.push(message.call)
    const before = message.type === 'settled' ? calls[calls.indexOf(message.call) - 1] : undefined
    if (before !== undefined) hear({ ...letter, body: serialize({ ...message, call: before }) })
    else hear(letter)
  }
}

const settler = (change: (settler: Settler) => Partial<Settler>): Plant => ({
  settler: (own) => Object.assign(Object.create(own) as Settler, change(own)),
})

const followUp = (change: (key: OwnKey) => OwnKey['followUp'] & {}): Plant =>
  settler(({ keys = [] }) => ({
    keys: keys.map((key) => Object.assign(Object.create(key) as OwnKey, { followUp: change(key) })),
  }))

/** Mistakes about settling keys that gateways share, and about payments that share a transaction. */
export const sharedKeyPlants = {
  'two open payments may have the same nonce': {
    // A process that takes over a key is not notified of the key's open attempts. The database still refuses a second payment with
    // the nonce of one of them, so the simulation finds nothing wrong with this alone.
    ...settler(({ keys = [] }) => ({
      keys: keys.map((key) => {
        const start: OwnKey['start'] = (_, mayGoOn) => key.start!([], mayGoOn)
        return Object.assign(Object.create(key) as OwnKey, { start })
      }),
    })),
    ledger: (ledger) => ({
      ...ledger,
      async apply(change) {
        try {
          return await ledger.apply(change)
        } catch (error) {
          if (change.attempt == null || !isTollgateError(error) || error.code !== 'CONFLICT') throw error
          // Under a number that is not the one in the bytes, the store sees nothing wrong with it.
          const sequence = String(1_000 + change.row)
          return ledger.apply({ ...change, attempt: { ...change.attempt, sequence } })
        }
      },
    }),
  },
  'what several share is sent although not all of them are in the ledger': settler(() => ({
    paymentsOf: () => [],
  })),
  'the lease holder is not notified of what others have concluded': followUp(() => async () => {}),
  'the sender of a payment is not notified that others have concluded it': settler(() => ({
    forgetConcluded: async () => {},
  })),
  'the holder of a key asks the chain for ever': followUp((key) => async (open) => {
    await key.followUp!(open)
    await key.readState().catch(() => undefined)
  }),
  'the lease holder sends before its bytes are stored': {
    mailbox(mailbox: Mailbox) {
      const listeners = new Map<number, (message: Message) => void>()
      return {
        async post(posted) {
          await mailbox.post(posted)
          for (const { to, from, body } of posted) {
            const message = deserialize(body) as SettlementResponse
            if (message.type !== 'store') continue
            const { call, turn, attempt } = message
            const { transaction } = attempt
            const stored: SettlementRequest = { type: 'stored', call, turn, transaction, ok: true }
            const outcome = { to: from, from: to, body: serialize({ name: '', message: stored }) }
            listeners.get(from)?.(outcome)
          }
        },
        listen(to, hear) {
          listeners.set(to, hear)
          return mailbox.listen(to, hear)
        },
      }
    },
  },
  'an outcome is taken for that of the payment asked about before': {
    mailbox: (mailbox) => ({
      ...mailbox,
      listen: (to, hear) => mailbox.listen(to, withOutcomesOfBefore(hear)),
    }),
  },
  'a process writes about nothing for ever': {
    ledger: (ledger) => ({ ...ledger, adopt: async (...args) => (await ledger.adopt(...args)) || 1 }),
  },
} satisfies Readonly<Record<string, Plant>>
