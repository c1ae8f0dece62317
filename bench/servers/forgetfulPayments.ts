import type { Payments } from '../../core/ports/payments.ts'

/** Payments in a Map, every change done at once: what a paid call costs when nothing has to be durable. */
export function createForgetfulPayments(): Payments {
  const claimed = new Set<string>()
  const done = Promise.resolve(true)
  return {
    async claim({ key, purchaseId }) {
      if (claimed.has(key)) throw new Error('Expected each payment once.')
      claimed.add(key)
      return { won: true, purchaseId }
    },
    advance: () => done,
    beginSettlement: () => done,
    settle: () => done,
    async keepAnswer() {},
    moveCharged: () => done,
    recordRefund: async () => 'not_refundable',
    find: async () => undefined,
    list: async () => [],
    takeOver: () => done,
    resume: async () => false,
    async heartbeat() {},
    forgetAnswers: async () => 0,
  }
}
