import { TollgateError } from '../../core/errors/error.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import type { SellerResponse } from '../../core/plugin/exchange.ts'
import { type Exchange, gatewayPlugin, handled, type Reply } from '../../core/plugin/gateway.ts'
import type { Transport } from '../../core/plugin/transport.ts'
import { channelRunKey } from './channels/judgeChannels.ts'
import type { Owner, Scheduler } from './scheduler.ts'
import { streamMetered } from './use/meteredStream.ts'
import type { RunUse, Statement } from './use/metering.ts'
import { sealer } from './wallets.ts'

/** One time that the seller's API was asked to work. */
export interface Run {
  readonly key: string
  readonly purchaseId: string
  /** Of the call for which it works. */
  readonly transport: Transport
  readonly by: Owner
  readonly startedAtMs: number
  /** Infinity when it never came to an end. */
  endedAtMs: number
  /** The answer was whole and good: it is to be paid for. */
  isGood: boolean
  /** Null if the link has a fixed price. */
  readonly use: RunUse | null
}

export interface SellerDeps {
  readonly scheduler: Scheduler
  readonly runs: Run[]
  /** How long an honest one works, at most. */
  readonly workMs: number
  fails(probability: number): boolean
  /** What the seller says that a call has used. */
  stateUse(isStreamed: boolean): Statement
  tell(...what: unknown[]): void
}

const headers = ['Content-Type', 'application/json']
const notes = createPurchaseNotes(sealer, '_svc')

/** Stands for the seller and the way to it: slow, failing, and broken off in the middle. */
export function sellerPlugin({ scheduler, runs, workMs, fails, stateUse, tell }: SellerDeps) {
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
    const { payment: voucher } = x.channelCall ?? {}
    const key =
      voucher === undefined ? x.payment!.identity.key : channelRunKey(voucher.channelId, voucher.maxClaimable)
    // A call of a channel has no claim.
    const purchaseId = x.claim?.purchaseId ?? key
    // Nothing has reached the seller; a buyer who is charged already gets the call done all the same.
    if (x.transport.isClosed && x.settlement === null) throw fail(x, 'buyer-left', 0)
    const by = scheduler.owner!
    const isStreamed = x.meter !== null
    const use: RunUse | null =
      x.link.pricing === null
        ? null
        : { statement: stateUse(isStreamed), isStreamed, isSaid: !isStreamed, end: null }
    const run: Run = {
      key,
      purchaseId,
      transport: x.transport,
      by,
      startedAtMs: scheduler.nowMs,
      endedAtMs: Infinity,
      isGood: false,
      use,
    }
    runs.push(run)
    tell('seller works', key.slice(0, 6), purchaseId)
    const ownMs = fails(0.1) ? scheduler.between(5_000, 25_000) : scheduler.between(5, workMs)
    if (use?.isStreamed) return meter(x, run, use, ownMs)
    await scheduler.wait(ownMs)
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
    x.settlementOverrides = use?.statement.overrides ?? null
    return status === 404 ? { status, headers, body } : undefined
  }

  /** Charged by its use at its end: the answer goes out as it comes. */
  function meter(x: Exchange, run: Run, use: RunUse, ownMs: number): Promise<Reply | undefined> {
    const opening = `{"key":${JSON.stringify(run.key)},`
    const { used } = use.statement
    const closing = used === null ? `"run":${runs.length}}` : `"run":${runs.length},"used":${used}}`
    const status = fails(0.08) ? 500 : fails(0.05) ? 404 : 200
    const answer = { workMs: ownMs, status, pieces: [opening, '"data":"…",', closing] }
    const streaming = streamMetered(x, use, answer, {
      scheduler,
      note: notes.of(run.purchaseId, false),
      fails,
      errorOf: () => fail(x, x.transport.isClosed ? 'buyer-left' : 'failed', status),
    })
    return streaming.finally(() => {
      run.endedAtMs = scheduler.nowMs
      run.isGood = use.end === 'whole'
      tell('stream ended', run.key.slice(0, 6), use.end, use.isSaid)
    })
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
