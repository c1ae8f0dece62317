import { TollgateError } from '../../core/errors/error.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import type { SellerResponse } from '../../core/plugin/exchange.ts'
import { type Exchange, gatewayPlugin, handled, type Reply } from '../../core/plugin/gateway.ts'
import type { Owner, Scheduler } from './scheduler.ts'

/** One time that the seller's API was asked to work. */
export interface Run {
  readonly key: string
  readonly purchaseId: string
  readonly by: Owner
  readonly startedAtMs: number
  /** Infinity when it never came to an end. */
  endedAtMs: number
  /** The answer was whole and good: it is to be paid for. */
  isGood: boolean
}

export interface SellerDeps {
  readonly scheduler: Scheduler
  readonly runs: Run[]
  /** How long an honest one works, at most. */
  readonly workMs: number
  fails(probability: number): boolean
  tell(...what: unknown[]): void
}

const headers = ['Content-Type', 'application/json']

/** Stands for the seller and the way to it: slow, failing, and broken off in the middle. */
export function sellerPlugin({ scheduler, runs, workMs, fails, tell }: SellerDeps) {
  const fail = (x: Exchange, outcome: NonNullable<Exchange['upstreamOutcome']>, status: number) => {
    x.upstreamOutcome = outcome
    x.upstreamStatus = status
    const charge =
      x.settlement === null ? 'You were not charged.' : 'You were charged. The seller owes you a refund.'
    return new TollgateError(outcome === 'timeout' ? 'upstream_timeout' : 'upstream_error', charge, {
      ...(x.purchase !== null && { extra: { purchaseId: x.purchase.id }, retryable: false }),
    })
  }

  async function forward(x: Exchange): Promise<Reply | undefined> {
    const { key } = x.payment!.identity
    const { purchaseId } = x.claim!
    // Nothing has reached the seller; a buyer who is charged already gets the call done all the same.
    if (x.transport.isClosed && x.settlement === null) throw fail(x, 'buyer-left', 0)
    const by = scheduler.owner!
    const run: Run = {
      key,
      purchaseId,
      by,
      startedAtMs: scheduler.nowMs,
      endedAtMs: Infinity,
      isGood: false,
    }
    runs.push(run)
    tell('seller works', key.slice(0, 6), purchaseId)
    await scheduler.wait(fails(0.1) ? scheduler.between(5_000, 25_000) : scheduler.between(5, workMs))
    run.endedAtMs = scheduler.nowMs
    if (fails(0.08)) throw fail(x, 'failed', 500)
    if (fails(0.04)) throw fail(x, 'timeout', 0)
    const status = fails(0.05) ? 404 : 200
    const body = Buffer.from(JSON.stringify({ key, run: runs.length }))
    x.upstreamStatus = status
    const response = { status, headers, mediaType: 'application/json', body, tunnel: null }
    if (x.settlement !== null) return stream(x, response)
    run.isGood = status === 200
    x.upstreamOutcome = 'answered'
    x.response = response
    return status === 404 ? { status, headers, body } : undefined
  }

  /** Charged first: the answer goes out as it comes, and is fetched to its end for a buyer who has left. */
  async function stream(x: Exchange, response: SellerResponse): Promise<Reply> {
    const reply = paidReply(
      response,
      'application/json',
      x.purchase!,
      x.settlement!.headersFor(response.status),
      true,
    )
    const { transport } = x
    if (!transport.isClosed) {
      x.status = reply.status
      transport.begin(reply.status, [...reply.headers])
    }
    await scheduler.wait(scheduler.between(0, 400))
    if (fails(0.04)) {
      x.errorCode = fail(x, 'failed', response.status).code
      // What was sent must not pass for the whole.
      transport.cutOff()
      return handled
    }
    if (transport.isClosed) x.isUnsent = true
    else transport.end(Buffer.from(String(reply.body), 'latin1'))
    x.upstreamOutcome = 'answered'
    x.response = response
    return handled
  }

  return gatewayPlugin({
    name: 'seller',
    api: 1,
    options: { type: 'object', additionalProperties: false, properties: {} },
    needs: [],
    slots: { forward: { mayRead: ['claim', 'payment', 'settlement', 'purchase'], writes: ['response'] } },
    setup: () => ({ route: () => ({ forward }) }),
  })
}
