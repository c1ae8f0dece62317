import type { ServedLink } from '../../core/domain/link.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { jsonReply, type Reply, type RouteHooks } from '../../core/plugin/gateway.ts'

/**
 * The hooks of a `standard` link, which has no API and redirects its buyers to its `url`. The status is 303, so that clients open
 * the address by GET without a body (RFC 9110, section 15.4.4). The address contains nothing of the call. A client that requests
 * JSON gets `{"url": …}`, because a program that follows a redirect would forward its headers, including the payment. A script in a
 * browser gets JSON too, because its payment header would require a preflight at the other origin (Fetch, "CORS-preflight fetch"),
 * which fails after the call is charged.
 *
 * A paid link reveals the address only in the paid response.
 */
export function redirectHooks(link: ServedLink, isPaid: boolean): RouteHooks {
  const { href, protocol } = new URL(link.url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new Error('Expected a url by http or https.')
  const json = Buffer.from(JSON.stringify({ url: href }))
  const jsonType = 'application/json'
  const jsonResponse = { status: 200, headers: ['Content-Type', jsonType, 'Vary', varies], body: json }
  const leading = { status: 303, headers: ['Location', href, 'Vary', varies], body: Buffer.alloc(0) }
  // Runs before the payment, because the link sells nothing at paths below its address.
  const guard = (x: Exchange) => {
    if (x.subPath !== '')
      throw new TollgateError('link_not_found', 'This link has no paths below its address.')
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
      // The payment may have bought a response below the address while the link had an API. The response is then sent again, and
      // nothing is charged.
      if (x.paymentHeader !== null && x.method !== 'HEAD') return
      guard(x)
      // A person cannot read a 402, so a browser gets the link's page with the Buy button.
      return x.method === 'GET' && x.header('sec-fetch-dest') === 'document' ? page : undefined
    },
    claim: (x) => (x.settlement === null ? guard(x) : undefined),
    forward: (x) => {
      const isJson = getsJson(x)
      x.response = { ...(isJson ? jsonResponse : leading), mediaType: isJson ? jsonType : '', tunnel: null }
      // The gateway calls no seller's API, so none can fail.
      x.upstreamOutcome = 'answered'
    },
  }
}

const varies = 'Accept, Sec-Fetch-Dest'

/**
 * Whether the caller gets JSON. A browser's `fetch` sends `Sec-Fetch-Dest: empty` (Fetch Metadata), whereas a browser that opens a
 * page sends `document`.
 */
const getsJson = (x: Exchange): boolean => x.header('sec-fetch-dest') === 'empty' || asksForJson(x)

/** Whether `Accept` names JSON (RFC 9110, section 12.5.1). The default values of browsers and other clients do not. */
const asksForJson = (x: Exchange): boolean =>
  /(?:^|,)\s*application\/(?:[\w.-]+\+)?json\s*(?:;(?!\s*q=0(?:\.0*)?\s*(?:,|$))[^,]*)?(?:,|$)/i.test(
    x.header('accept') ?? '',
  )
