import { isChargedAtEnd, type ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { createLoopMarks } from '../../core/http/loopMark.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { HeldResponse } from '../../core/ports/responseBuffer.ts'
import { Calls, type Destination } from './call.ts'
import { IgnoredOverrides } from './ignoredOverrides.ts'
import { options } from './options.ts'
import { redirectHooks } from './redirect.ts'
import { addedHeaders, assertKnownCoding, assertStatedLength, targetOf } from './request.ts'
import { originsOf, type Slot } from './slots.ts'
import { splice } from './tunnel.ts'

/**
 * Calls the seller's API. It streams the responses of free calls and of calls that were charged first. It holds the response of a
 * call that is charged last until the charge, unless the link is charged at the end of a streamed response. A `standard` link has no API, so its buyers are redirected to its `url`.
 */
export default gatewayPlugin({
  name: 'upstream',
  api: 1,
  options,
  needs: ['egress', 'sealer', 'service', 'log', 'responseBuffer'],
  // The slot at the seller and the memory that a call reserves before it is charged.
  ownSlots: { 'upstream/slot': null as Slot | null, 'upstream/held': null as HeldResponse | null },
  slots: {
    // Runs after the claim, so that a repeated payment takes no slot. Settlement and purchase show whether a refused call is
    // already charged.
    claim: {
      reads: ['claim'],
      mayRead: ['settlement', 'purchase'],
      writes: ['upstream/slot'],
      mayWrite: ['upstream/held'],
    },
    forward: {
      mayRead: ['signedIn', 'claim', 'payment', 'settlement', 'purchase', 'upstream/slot', 'upstream/held'],
      writes: ['response'],
    },
    respond: { reads: ['response'], mayRead: ['settlement', 'purchase'] },
    log: { mayRead: ['response', 'upstream/slot', 'upstream/held'] },
  },
  setup(limits, { ports: { egress, sealer, service, log, responseBuffer: memory }, slot }) {
    const [reserved, held] = [slot('upstream/slot'), slot('upstream/held')]
    const calls = new Calls({
      limits,
      egress,
      memory,
      ignoredOverrides: new IgnoredOverrides(log),
      reserved,
      held,
    })
    const origins = originsOf(egress)
    const loopMarks = createLoopMarks(service.publicUrl, sealer)
    const notes = createPurchaseNotes(sealer, service.metadataField)

    function destinationOf(link: ServedLink): Destination {
      const target = targetOf(link.url)
      const sealed = link.upstreamHeadersSealed
      const own = sealed === null ? {} : JSON.parse(sealer.open(sealed, link.id))
      const added = addedHeaders(loopMarks.ofLink(link.id), own)
      return { target, added, ...origins.link(target.origin, link.storeId) }
    }

    /** The hooks of a free link. The only state is the link's destination. */
    class FreeCalls implements RouteHooks {
      readonly #to: Destination

      constructor(to: Destination) {
        this.#to = to
      }

      guard(x: Exchange): void {
        if (!x.hasBody) return
        assertKnownCoding(x)
        assertStatedLength(x, limits.maxRequestBytes)
      }

      forward(x: Exchange) {
        return x.upgrade === null ? this.send(x, this.#to) : calls.connect(x, this.#to)
      }

      respond(x: Exchange) {
        return x.upgrade === null ? undefined : splice(x, limits)
      }

      log(x: Exchange): void {
        // A tunnel was opened, but its payment failed.
        if (x.response !== null && x.response.tunnel !== null && x.status !== 101) x.response.tunnel.destroy()
      }

      dispose(): void {
        this.#to.origin.unlink(this.#to.calls)
      }

      protected send(x: Exchange, to: Destination): Promise<Reply | undefined> {
        return calls.stream(x, to, 0)
      }

      protected reserve(x: Exchange) {
        return calls.reserve(x, this.#to)
      }
    }

    /** Hooks of a link whose calls are charged first. */
    class ChargedCalls extends FreeCalls {
      // Reserves after the payment is claimed, because a repeated payment needs no slot, and before verify and settle, so that a
      // call without a slot is not charged.
      claim(x: Exchange) {
        return this.reserve(x)
      }

      override log(x: Exchange): void {
        calls.release(x)
        super.log(x)
      }

      protected override send(x: Exchange, to: Destination): Promise<Reply | undefined> {
        return calls.stream(x, to, limits.maxResponseBytes)
      }
    }

    /** Hooks of a link whose calls are charged once the seller has responded. */
    class HeldCalls extends ChargedCalls {
      protected override send(x: Exchange, to: Destination): Promise<Reply | undefined> {
        return calls.hold(x, to)
      }
    }

    /** Hooks of a link whose calls are charged at the end of a response that the buyer gets as it arrives. */
    class MeteredCalls extends ChargedCalls {
      protected override send(x: Exchange, to: Destination): Promise<Reply | undefined> {
        const isWrapped = x.link.responseMode === 'wrap'
        return calls.meter(x, to, x.channelCall?.note ?? notes.of(x.claim!.purchaseId, isWrapped))
      }
    }

    return {
      route({ link, isPaid, settle }) {
        let to: Destination
        try {
          if (link.linkType === 'standard') return redirectHooks(link, isPaid)
          to = destinationOf(link)
        } catch (error) {
          // For example, the configuration may allow the address no longer. This is a fault of one link, not of the gateway.
          log.error({ linkId: link.id, reason: (error as Error).message }, 'a link cannot be called')
          // Buyers still get responses that they bought while the link could be called.
          return isPaid
            ? { guard: refuseUnpaid, claim: refuseClaimed, forward: refuse }
            : { guard: refuse, forward: refuse }
        }
        if (!isPaid) return new FreeCalls(to)
        if (settle === 'before') return new ChargedCalls(to)
        return isChargedAtEnd(link.pricing) ? new MeteredCalls(to) : new HeldCalls(to)
      },
    }
  },
})

/**
 * Refuses calls without a payment. A call with a payment continues to the claim phase, because its payment may have bought a
 * response earlier.
 */
function refuseUnpaid(x: Exchange): void {
  if (x.paymentHeader === null || x.method === 'HEAD') refuse()
}

/** Refuses a call that has claimed its payment. If the call is already charged, the error must not say that nothing was charged. */
function refuseClaimed({ settlement, purchase }: Exchange): never {
  if (settlement === null) refuse()
  throw new TollgateError(
    'upstream_error',
    `${CAN_NOT_BE_CALLED} You were charged. The seller owes you a refund.`,
    { retryable: false, extra: { purchaseId: purchase!.id } },
  )
}

function refuse(): never {
  throw new TollgateError('upstream_error', `${CAN_NOT_BE_CALLED} You were not charged.`)
}

const CAN_NOT_BE_CALLED = "The seller's API cannot be called at the link's address."
