import type { ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { jsonReply, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'

/**
 * The hooks of a `standard` link, which has no API behind it: whoever may pass is led to its `url`. 303, so that whatever
 * the call was, the address is opened by GET and no body goes along (RFC 9110, section 15.4.4). Nothing of the call stands
 * in the address. Who asks for JSON gets it as `{"url": …}`, because a program that follows a redirect would send its headers
 * along, and its payment is one. So does a script in a browser, which could not follow: its payment header makes the other
 * origin's leave necessary (Fetch, "CORS-preflight fetch"), and the call is charged by then.
 *
 * A paid link shows the address in the paid answer and nowhere else.
 */
export function redirectHooks(link: ServedLink, isPaid: boolean): RouteHooks {
  const { href, protocol } = new URL(link.url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new Error('Expected a url by http or https.')
  const json = Buffer.from(JSON.stringify({ url: href }))
  const jsonType = 'application/json'
  const jsonAnswer = { status: 200, headers: ['Content-Type', jsonType, 'Vary', varies], body: json }
  const leading = { status: 303, headers: ['Location', href, 'Vary', varies], body: Buffer.alloc(0) }
  // Before the payment: nothing is sold below the address.
  const guard = (x: Exchange) => {
    if (x.subPath !== '')
      throw new TollgateError('link_not_found', 'This link has nothing below its address.')
  }
  if (!isPaid) {
    const uncached = ['Vary', varies, 'Cache-Control', 'no-store']
    const named = link.responseMode === 'raw' ? { url: href } : { data: { url: href } }
    const asJson = jsonReply(200, named, uncached)
    const asLead: Reply = {
      status: 303,
      headers: ['Location', href, 'Content-Length', '0', ...uncached],
      body: null,
    }
    return { guard, forward: (x) => (getsJson(x) ? asJson : asLead) }
  }
  const page: Reply = {
    status: 303,
    headers: [
      ...['Location', `/${link.username}/${link.privateSlug ?? link.slug}`],
      ...['Content-Length', '0', 'Vary', varies, 'Cache-Control', 'no-store'],
    ],
    body: null,
  }
  return {
    guard: (x) => {
      // What was bought below it while the link had an API is handed out; nothing new is charged there.
      if (x.paymentHeader !== null && x.method !== 'HEAD') return
      guard(x)
      // A person reads no 402: the link's page has the Buy button.
      return x.method === 'GET' && x.header('sec-fetch-dest') === 'document' ? page : undefined
    },
    claim: (x) => (x.settlement === null ? guard(x) : undefined),
    forward: (x) => {
      const isJson = getsJson(x)
      x.answer = { ...(isJson ? jsonAnswer : leading), mediaType: isJson ? jsonType : '', tunnel: null }
      // There is nobody who could fail.
      x.upstreamOutcome = 'answered'
    },
  }
}

const varies = 'Accept, Sec-Fetch-Dest'

/** `Sec-Fetch-Dest: empty` is a browser's `fetch` (Fetch Metadata); a page that is opened says `document`. */
const getsJson = (x: Exchange): boolean => x.header('sec-fetch-dest') === 'empty' || asksForJson(x)

/** Whether `Accept` names JSON (RFC 9110, section 12.5.1); neither a browser's list nor anything by default does. */
const asksForJson = (x: Exchange): boolean =>
  /(?:^|,)\s*application\/(?:[\w.-]+\+)?json\s*(?:;(?!\s*q=0(?:\.0*)?\s*(?:,|$))[^,]*)?(?:,|$)/i.test(
    x.header('accept') ?? '',
  )
