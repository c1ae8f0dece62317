import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../../core/http/callerAddress.ts'
import { type Exchange, gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { Taken } from '../../core/ports/counters.ts'
import { options } from './options.ts'

/**
 * Refuses a caller who asks too often, before any payment work, so that a flood never costs a signature check. Calls
 * that carry a payment draw from their own, smaller bucket, and only when they fail, or are hung up on.
 */
export default gatewayPlugin({
  name: 'rate-limit',
  api: 1,
  options,
  needs: ['counters', 'clock'],
  slots: { log: { mayRead: ['x402/payersDoing'] } },
  setup({ points, paymentPoints, windowMs, keyBy }, { ports: { counters, clock }, slot }) {
    const payersDoing = slot<boolean>('x402/payersDoing')
    const keyOf = keyFunction(keyBy)
    // Entries with other limits, for other links, have buckets of their own; a reload finds the same ones again.
    const calls = `call:${points}/${windowMs}:`
    const payments = `pay:${paymentPoints}/${windowMs}:`

    function judge(x: Exchange, taken: Taken): undefined {
      if (taken.ok) return
      const retryAfterSeconds = Math.max(1, Math.ceil((taken.resetAtMs - clock.now()) / 1000))
      x.addHeader('X-RateLimit-Remaining', '0')
      x.addHeader('X-RateLimit-Reset', String(Math.ceil(taken.resetAtMs / 1000)))
      throw new TollgateError('rate_limited', `Too many calls. Try again in ${retryAfterSeconds} s.`, {
        retryAfterSeconds,
      })
    }

    const take = (x: Exchange, key: string, cost: number, limit: number): undefined | Promise<undefined> => {
      const taken = counters.take(key, cost, limit, windowMs)
      return taken instanceof Promise ? taken.then((late) => judge(x, late)) : judge(x, taken)
    }

    const unpaid = (x: Exchange) => take(x, calls + keyOf(x), 1, points)
    const free: RouteHooks = { guard: unpaid }
    const paid: RouteHooks = {
      // A payment takes nothing yet: only failures fill its bucket, and a full one refuses.
      guard: (x) =>
        x.paymentHeader === null ? unpaid(x) : take(x, payments + keyOf(x), 0, paymentPoints - 1),
      log: (x) => {
        if (x.paymentHeader === null) return
        const isRefused = x.status >= 400 && x.status < 500 && x.status !== 429
        const isHungUpOn = x.door.hasLeft && (x.status === 0 || x.isUnsent)
        // What is ours or the chain's trouble is 503 as well, and counts against no caller.
        if (isRefused || isHungUpOn || payersDoing.get(x))
          void counters.take(payments + keyOf(x), 1, paymentPoints, windowMs)
      },
    }

    return { route: ({ isPaid }) => (isPaid ? paid : free) }
  },
})

function keyFunction(keyBy: 'ip' | 'link' | 'ip-and-link'): (x: Exchange) => string {
  switch (keyBy) {
    case 'ip':
      return (x) => callerOf(x.clientIp)
    case 'link':
      return (x) => x.link.id
    case 'ip-and-link':
      return (x) => `${callerOf(x.clientIp)} ${x.link.id}`
  }
}
