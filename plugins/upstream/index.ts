import type { ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { createLoopMarks } from '../../core/http/loopMark.ts'
import { type Exchange, gatewayPlugin, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { HeldAnswer } from '../../core/ports/answerMemory.ts'
import { createCalls, type Way } from './call.ts'
import { options } from './options.ts'
import { originsOf } from './origins.ts'
import type { Place } from './places.ts'
import { redirectHooks } from './redirect.ts'
import { addedHeaders, assertKnownCoding, assertStatedLength, targetOf } from './request.ts'
import { splice } from './tunnel.ts'

/**
 * Calls the seller's API. Free calls and calls that were charged first are streamed; a call that is charged afterwards
 * is held until it is. A `standard` link has no API: whoever may pass is led to its `url`.
 */
export default gatewayPlugin({
  name: 'upstream',
  api: 1,
  options,
  needs: ['egress', 'sealer', 'service', 'log', 'answerMemory'],
  // What a call that is going to be charged holds at the seller's and in memory, from before anything is.
  ownSlots: { 'upstream/place': null as Place | null, 'upstream/held': null as HeldAnswer | null },
  slots: {
    // Behind the claim, so that a repeated payment takes no place; settlement and purchase to say whether a refusal is charged.
    claim: {
      reads: ['claim'],
      mayRead: ['settlement', 'purchase'],
      writes: ['upstream/place'],
      mayWrite: ['upstream/held'],
    },
    forward: { mayRead: ['settlement', 'purchase', 'upstream/place', 'upstream/held'], writes: ['answer'] },
    respond: { reads: ['answer'], mayRead: ['settlement', 'purchase'] },
    log: { mayRead: ['answer', 'upstream/place', 'upstream/held'] },
  },
  setup(limits, { ports: { egress, sealer, service, log, answerMemory: memory }, slot }) {
    const [reserved, held] = [slot('upstream/place'), slot('upstream/held')]
    const calls = createCalls({ limits, egress, memory, reserved, held })
    const origins = originsOf(egress)
    const loopMarks = createLoopMarks(service.publicUrl, sealer)

    function wayOf(link: ServedLink): Way {
      const target = targetOf(link.url)
      const sealed = link.upstreamHeadersSealed
      const own = sealed === null ? {} : JSON.parse(sealer.open(sealed, link.id))
      const added = addedHeaders(loopMarks.ofLink(link.id), own)
      return { target, added, ...origins.link(target.origin, link.storeId) }
    }

    /** Of a link's own there is its way, and nothing else. */
    class FreeCalls implements RouteHooks {
      readonly #way: Way

      constructor(way: Way) {
        this.#way = way
      }

      guard(x: Exchange): void {
        if (!x.hasBody) return
        assertKnownCoding(x)
        assertStatedLength(x, limits.maxRequestBytes)
      }

      forward(x: Exchange) {
        return x.upgrade === null ? this.ask(x, this.#way) : calls.connect(x, this.#way)
      }

      respond(x: Exchange) {
        return x.upgrade === null ? undefined : splice(x, limits)
      }

      log(x: Exchange): void {
        // A tunnel that was opened and then not paid for.
        if (x.answer !== null && x.answer.tunnel !== null && x.status !== 101) x.answer.tunnel.destroy()
      }

      dispose(): void {
        this.#way.origin.unlink(this.#way.calls)
      }

      protected ask(x: Exchange, way: Way): Promise<Reply | undefined> {
        return calls.stream(x, way, 0)
      }

      protected reserve(x: Exchange) {
        return calls.reserve(x, this.#way)
      }
    }

    /** Charged before the seller is asked. */
    class ChargedCalls extends FreeCalls {
      // Behind the claim, because a repeated payment needs no place; before the chain is asked and anything is charged.
      claim(x: Exchange) {
        return this.reserve(x)
      }

      override log(x: Exchange): void {
        calls.release(x)
        super.log(x)
      }

      protected override ask(x: Exchange, way: Way): Promise<Reply | undefined> {
        return calls.stream(x, way, limits.maxAnswerBytes)
      }
    }

    /** Charged once the seller has answered. */
    class HeldCalls extends ChargedCalls {
      protected override ask(x: Exchange, way: Way): Promise<Reply | undefined> {
        return calls.hold(x, way)
      }
    }

    return {
      route({ link, isPaid, settle }) {
        let way: Way
        try {
          if (link.linkType === 'standard') return redirectHooks(link, isPaid)
          way = wayOf(link)
        } catch (error) {
          // Such as an address that was allowed when the link was made. One link's trouble, not the gateway's.
          log.error({ linkId: link.id, reason: (error as Error).message }, 'a link can not be called')
          // What was bought while it could be called is handed out all the same.
          return isPaid
            ? { guard: refuseUnpaid, claim: refuseClaimed, forward: refuse }
            : { guard: refuse, forward: refuse }
        }
        if (!isPaid) return new FreeCalls(way)
        return settle === 'before' ? new ChargedCalls(way) : new HeldCalls(way)
      },
    }
  },
})

/** Whoever comes with a payment may have bought an answer: the claim knows. */
function refuseUnpaid(x: Exchange): void {
  if (x.paymentHeader === null || x.method === 'HEAD') refuse()
}

/** Of a call that was charged first, and is served late, it can't be said that nothing was charged. */
function refuseClaimed({ settlement, purchase }: Exchange): never {
  if (settlement === null) refuse()
  throw new TollgateError(
    'upstream_error',
    `${CAN_NOT_BE_CALLED} You were charged; the seller owes you a refund.`,
    { retryable: false, extra: { purchaseId: purchase!.id } },
  )
}

function refuse(): never {
  throw new TollgateError('upstream_error', `${CAN_NOT_BE_CALLED} You were not charged.`)
}

const CAN_NOT_BE_CALLED = "The seller's API can't be called at the address that the link has."
