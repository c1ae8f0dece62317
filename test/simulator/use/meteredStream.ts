import type { PurchaseNote } from '../../../core/payments/purchase.ts'
import { type Exchange, handled, type Reply } from '../../../core/plugin/gateway.ts'
import type { HeldResponse } from '../../../core/ports/responseBuffer.ts'
import { BuyerLeft } from '../../../plugins/upstream/failure.ts'
import type { Limits } from '../../../plugins/upstream/options.ts'
import type { Slot } from '../../../plugins/upstream/slots.ts'
import { StreamedResponse } from '../../../plugins/upstream/streamedResponse.ts'
import type { Scheduler } from '../scheduler.ts'
import type { RunUse, StreamEnd } from './metering.ts'

const limits = {
  slowestBytesPerSecond: 1_000,
  maxResponseBytes: 10_000,
  responseTimeoutMs: 60_000,
} as Partial<Limits> as Limits
const held = { grow: () => true, release() {} } as Partial<HeldResponse> as HeldResponse
const slot = { connected() {} } as Partial<Slot> as Slot

export interface MeteredStreamDeps {
  readonly scheduler: Scheduler
  readonly note: PurchaseNote
  fails(probability: number): boolean
  /** The error for a call whose response has not begun. */
  errorOf(error: Error): Error
}

/** What a seller sends: a status, and a JSON document in pieces, of which the last one says what was used. */
export interface MeteredAnswer {
  readonly workMs: number
  readonly status: number
  readonly pieces: readonly string[]
}

/** Streams an answer through the handler that counts real ones. Its seller may break it off anywhere, also after the last piece. */
export function streamMetered(
  x: Exchange,
  use: RunUse,
  { workMs, status, pieces }: MeteredAnswer,
  { scheduler, note, fails, errorOf }: MeteredStreamDeps,
): Promise<Reply | undefined> {
  return new Promise((resolve, reject) => {
    const response = new StreamedResponse(x, slot, held, limits.maxResponseBytes, limits, ended, note)
    let isOver = false

    // As upstream's own end of a metered call.
    function ended(error: Error | null): void {
      if (error === null) return resolve(response.isMetered ? undefined : handled)
      const failed = errorOf(error)
      x.meter!.stop(error instanceof BuyerLeft ? 'left' : 'broken')
      if (response.headSent || response.isMetered) x.errorCode = 'upstream_error'
      if (response.isMetered) resolve(undefined)
      else if (response.headSent || x.transport.isClosed) resolve(handled)
      else reject(failed)
    }

    /** @returns false if it was over before */
    function finish(end: StreamEnd): boolean {
      if (isOver) return false
      isOver = true
      // What was not begun costs nothing, regardless of how it ended.
      use.end = response.isMetered ? end : null
      return true
    }

    const controller = {
      rawHeaders: ['Content-Type', 'application/json'],
      pause() {},
      resume() {},
      abort(reason: Error) {
        if (finish('left')) scheduler.at(0, scheduler.owner, () => response.onResponseError(null, reason))
      },
    }

    async function send(): Promise<void> {
      const breakOff = () => {
        if (finish('broken')) response.onResponseError(controller, new Error('the seller broke off'))
      }
      response.onRequestStart(controller)
      await scheduler.wait(workMs)
      if (fails(0.04)) return breakOff()
      if (isOver) return
      response.onResponseStart(controller, status)
      for (const [i, piece] of pieces.entries()) {
        if (fails(0.04)) return breakOff()
        if (isOver) return
        response.onResponseData(controller, Buffer.from(piece))
        if (i === pieces.length - 1) use.isSaid = true
        await scheduler.wait(scheduler.between(0, 300))
      }
      if (fails(0.15)) return breakOff()
      if (finish('whole')) response.onResponseEnd()
    }
    void send()
  })
}
