import type { ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { gatewayPlugin } from '../../core/plugin/gateway.ts'
import { createCalls, type Way } from './call.ts'
import { options } from './options.ts'
import { originsOf } from './origins.ts'
import { redirectHooks } from './redirect.ts'
import { assertKnownCoding } from './requestBody.ts'
import { addedHeaders, noHeaders } from './requestHead.ts'
import { targetOf } from './target.ts'
import { splice } from './tunnel.ts'

/**
 * Calls the seller's API. Free calls and calls that were charged first are streamed; a call that is charged afterwards
 * is held until it is. A `standard` link has no API: whoever may pass is led to its `url`.
 */
export default gatewayPlugin({
  name: 'upstream',
  api: 1,
  options,
  needs: ['egress', 'sealer', 'log'],
  slots: { forward: { writes: ['answer'] } },
  setup(limits, { ports: { egress, sealer, log } }) {
    const calls = createCalls(limits, egress)
    const origins = originsOf(egress)

    function wayOf(link: ServedLink): Way {
      const target = targetOf(link.url)
      const sealed = link.upstreamHeadersSealed
      const added = sealed === null ? noHeaders : addedHeaders(JSON.parse(sealer.open(sealed, link.id)))
      return { target, added, origin: origins.link(target.origin) }
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
          return { guard: refuse, forward: refuse }
        }
        const settlesFirst = isPaid && settle === 'before'
        const isHeld = isPaid && !settlesFirst
        const keepBytes = isPaid ? limits.maxAnswerBytes : 0
        return {
          guard: (x) => {
            if (x.hasBody) assertKnownCoding(x)
            // Whoever is charged first has to hear it before that.
            if (settlesFirst) calls.assertAcceptable(x, way)
          },
          forward: (x) => {
            if (x.upgrade !== null) return calls.connect(x, way)
            return isHeld ? calls.hold(x, way) : calls.stream(x, way, keepBytes)
          },
          respond: (x) => (x.upgrade === null ? undefined : splice(x, limits)),
          log: (x) => {
            // A tunnel that was opened and then not paid for.
            if (x.answer !== null && x.answer.tunnel !== null && x.status !== 101) x.answer.tunnel.destroy()
          },
          dispose: () => way.origin.unlink(),
        }
      },
    }
  },
})

function refuse(): never {
  throw new TollgateError(
    'upstream_error',
    "The seller's API can't be called at the address that the link has. You were not charged.",
  )
}
