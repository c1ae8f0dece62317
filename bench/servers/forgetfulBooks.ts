import type { Books } from '../../core/ports/store/books.ts'

/** Books that keep nothing, every change done at once: what a paid call costs when nothing has to be durable. */
export function createForgetfulBooks(): Books {
  const claimed = new Set<string>()
  const done = Promise.resolve(true)
  return {
    async claim({ key }) {
      if (claimed.has(key)) throw new Error('Expected each payment once.')
      claimed.add(key)
      return { won: true, row: claimed.size }
    },
    apply: () => done,
    applyAll: async (changes) => changes.map(() => true),
    find: async () => undefined,
    statesOf: async () => new Map(),
    answerOf: async () => undefined,
    adopt: async () => 0,
    due: async () => [],
    async putOff() {},
    parked: async () => ({ total: 0, rows: [] }),
    openAttempts: async () => [],
    minedAttempts: async () => [],
    list: async () => [],
    refundOf: async () => undefined,
    forgetAnswers: async () => 0,
    forgetSigned: async () => 0,
    forgetDelivered: async () => 0,
  }
}
