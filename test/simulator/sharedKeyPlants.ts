import { deserialize, serialize } from 'node:v8'
import type { FromPrimary, FromWorker } from '../../cli/runtime/cluster/messages.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { OwnKey, Settler } from '../../core/ports/chains/settler.ts'
import type { Letter, Letters } from '../../core/ports/store/letters.ts'
import type { Plant } from './plant.ts'

/** What a process hears, with each outcome as that of the payment whose bytes it has stored before. */
function withOutcomesOfBefore(hear: (letter: Letter) => void): (letter: Letter) => void {
  const calls: number[] = []
  return (letter) => {
    const message = deserialize(letter.body) as FromPrimary
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
  'two open payments may have one account number': {
    books: (books) => ({
      ...books,
      // Whoever takes a key over hears nothing of numbers that a reorganisation has taken back: as one that did not look.
      minedAttempts: async () => [],
      async apply(change) {
        try {
          return await books.apply(change)
        } catch (error) {
          if (change.attempt == null || !isTollgateError(error) || error.code !== 'CONFLICT') throw error
          // Under a number that is not the one in the bytes, the store sees nothing wrong with it.
          const sequence = String(1_000 + change.row)
          return books.apply({ ...change, attempt: { ...change.attempt, sequence } })
        }
      },
    }),
  },
  'what several share is sent although not all of them stand in the books': settler(() => ({
    paymentsOf: () => [],
  })),
  'nobody tells the holder of a key what others have concluded': followUp(() => async () => {}),
  'nobody tells who has sent a payment that others have concluded it': settler(() => ({
    forgetConcluded: async () => {},
  })),
  'the holder of a key asks the chain for ever': followUp((key) => async (open) => {
    await key.followUp!(open)
    await key.look().catch(() => undefined)
  }),
  'the holder of a key sends before it hears that its bytes are stored': {
    letters(letters: Letters) {
      const listeners = new Map<number, (letter: Letter) => void>()
      return {
        async post(posted) {
          await letters.post(posted)
          for (const { to, from, body } of posted) {
            const message = deserialize(body) as FromPrimary
            if (message.type !== 'store') continue
            const { call, turn, attempt } = message
            const { transaction } = attempt
            const stored: FromWorker = { type: 'stored', call, turn, transaction, ok: true }
            const heard = { to: from, from: to, body: serialize({ name: '', message: stored }) }
            listeners.get(from)?.(heard)
          }
        },
        listen(to, hear) {
          listeners.set(to, hear)
          return letters.listen(to, hear)
        },
      }
    },
  },
  'an outcome is taken for that of the payment asked about before': {
    letters: (letters) => ({
      ...letters,
      listen: (to, hear) => letters.listen(to, withOutcomesOfBefore(hear)),
    }),
  },
  'a process writes about nothing for ever': {
    books: (books) => ({ ...books, adopt: async (...asked) => (await books.adopt(...asked)) || 1 }),
  },
} satisfies Readonly<Record<string, Plant>>
