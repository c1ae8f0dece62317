import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../../core/http/caller.ts'
import { type Exchange, gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'
import type { Taken } from '../../core/ports/counters.ts'

const options = {
  type: 'object',
  additionalProperties: false,
  examples: [{ points: 120, paymentPoints: 20, windowMs: 60_000 }],
  properties: {
    points: {
      type: 'integer',
      minimum: 1,
      default: 120,
      description:
        'Maximum number of unpaid calls of a caller in one time window. Calls of free links and calls without a payment are unpaid.',
    },
    paymentPoints: {
      type: 'integer',
      minimum: 1,
      default: 20,
      description:
        'Maximum number of failed payments of a caller in one time window. A paid call counts as failed if the caller disconnected before the response. Successful payments do not count.',
    },
    windowMs: {
      type: 'integer',
      minimum: 1,
      default: 60_000,
      description: 'Length of the time window in which the plugin counts calls, in milliseconds.',
    },
    keyBy: {
      enum: ['ip', 'link', 'ip-and-link'],
      default: 'ip',
      description:
        'What a caller is. With `ip`, a caller is one client address (IPv6: one /64 range). With `link`, all callers of a link count as one. With `ip-and-link`, a caller is one client address at one link.',
    },
  },
} as const satisfies OptionsSchema

/**
 * Refuses a caller who calls too often. It runs before any payment work, so that a flood costs no signature checks. Calls with a
 * payment have a separate, smaller bucket. They count only if they fail or their caller disconnects.
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
    // The keys contain the limits, so that entries with other limits for other links have their own buckets. A reload keeps the
    // buckets.
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
      // A call with a payment takes no points here, but a full bucket refuses it. Its failure takes a point at the end of the call.
      guard: (x) =>
        x.paymentHeader === null ? unpaid(x) : take(x, payments + keyOf(x), 0, paymentPoints - 1),
      log: (x) => {
        if (x.paymentHeader === null) return
        // A signed voucher over another total is corrected and repeated, as concurrent calls of a channel do.
        const isCorrected = x.channelCall?.isOfKnownChannel === true
        const isRefused = x.status >= 400 && x.status < 500 && x.status !== 429 && !isCorrected
        const isAborted = x.transport.hasLeft && (x.status === 0 || x.isUnsent)
        // A 503 does not count, because the gateway or the chain may have caused it, unless x402 has marked it as caused by the
        // payer.
        if (isRefused || isAborted || payersDoing.get(x))
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
