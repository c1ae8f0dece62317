import { TollgateError } from '../core/errors/error.ts'
import { errorReply } from '../core/http/errorReply.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { Reply } from '../core/plugin/reply.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import { type Call, runCall } from './call.ts'
import { allowOf, corsHeaders, isPreflight, preflightReply } from './cors.ts'
import { failureReceipt, unread } from './failureReceipt.ts'
import type { Generations } from './generations.ts'
import type { NoRoute, Route } from './routeTable.ts'
import { send, sendOnSocket } from './send.ts'
import { Strangers } from './strangers.ts'
import { linkPrefix } from './target.ts'

export type Answerable = Pick<Call, 'res' | 'head' | 'upgrade'>

/** Takes a call to its link. */
export interface Router {
  route(call: Call): void
  notFound(call: Answerable): void
}

export interface RouterParts {
  readonly generations: Generations
  readonly clock: Clock
  readonly log: Log
}

export function createRouter({ generations, clock, log }: RouterParts): Router {
  const strangers = new Strangers(clock)

  function route(call: Call): void {
    const { generation, table } = generations.live
    const found = table.lookup(call.target.key)
    if (found === undefined) ask(call)
    else arrive(call, found, generation)
  }

  /** An address that this process does not know: the store does, but it is not asked for whatever anybody makes up. */
  function ask(call: Call): void {
    const { clientIp, target } = call
    if (!isPossible(target.key)) return notFound(call)
    const at = generations.live
    const isFirst = !at.table.isAsking(target.key)
    if (isFirst && !strangers.take(clientIp)) return answerError(call, tooManyUnknown())
    at.table
      .ask(target.key)
      .then((found) => {
        if (isFirst && found.link !== null) strangers.giveBack(clientIp)
        // A reload in between has closed this table, and its generation may be gone.
        if (at === generations.live) arrive(call, found, at.generation)
        else route(call)
      })
      .catch((error: unknown) => answerError(call, error))
  }

  function arrive(call: Call, found: Route | NoRoute, generation: Generation): void {
    if (found.link === null) return missing(call, found)
    const { req, res, head } = call
    if (req.method === 'OPTIONS' && isOursToAnswer(call, found)) {
      return answer(call, preflightReply(req, found.methods))
    }
    if (!takes(found, req.method!)) {
      const allow = allowOf(found.methods!)
      const error = new TollgateError('method_not_allowed', `Expected one of ${allow}, got ${req.method}.`)
      return answerError(call, error, ['Allow', allow], found.isPaid)
    }
    // A body that is not paid for need not come: the 402 is the answer (RFC 9110, section 10.1.1).
    if (head.expectsContinue && !(found.isPaid && head.paymentHeader === null)) res.writeContinue()
    runCall(call, found, generation, clock, log)
  }

  /** No link there: perhaps it had this address until lately. */
  function missing(call: Call, { movedTo }: NoRoute): void {
    if (movedTo === undefined) return notFound(call)
    // The query as it came: what is the gateway's own in it is asked for again at the new address.
    const mark = call.req.url!.indexOf('?')
    const query = mark === -1 ? '' : call.req.url!.slice(mark)
    const location = `${linkPrefix}${movedTo.username}/${movedTo.slug}${call.target.subPath}${query}`
    // 308 keeps method and body (RFC 9110, section 15.4.9). The address may be another link's any time.
    const headers = ['Location', location, 'Content-Length', '0', 'Cache-Control', 'no-store']
    answer(call, { status: 308, headers, body: null })
  }

  function answer(call: Answerable, reply: Reply, extra: readonly string[] = []): void {
    const headers = call.head.hasOrigin && reply.status !== 204 ? [...corsHeaders, ...extra] : extra
    if (call.upgrade !== null) sendOnSocket(call.res, call.upgrade.socket, reply, headers)
    else send(call.res, reply, headers)
  }

  /** Whoever came with a payment keeps it, and hears so. */
  function answerError(call: Answerable, error: unknown, extra: readonly string[] = [], isPaid = true): void {
    const { reply } = errorReply(error, log)
    const { x402Version, paymentHeader } = call.head
    const isPresented = isPaid && paymentHeader !== null
    const receipt = isPresented ? failureReceipt(unread(x402Version), error, reply.status) : []
    answer(call, reply, [...extra, ...receipt])
  }

  const notFound = (call: Answerable) =>
    answerError(
      call,
      new TollgateError('link_not_found', 'No link has this address. Check the seller and the slug.'),
    )

  return { route, notFound }
}

/** Letters, digits, _ and - of a username and a slug: anything else is no link's, whatever the store holds. */
const possible = /^[\w-]{1,64}\/[\w-]{1,64}$/
const isPossible = (key: string) => possible.test(key)

const tooManyUnknown = () =>
  new TollgateError(
    'rate_limited',
    'Too many calls of addresses that no link has. Check the seller and the slug.',
    {
      retryAfterSeconds: 1,
    },
  )

/** A preflight, any OPTIONS of a paid link (it would be a way past the price), and one that the link does not list. */
const isOursToAnswer = ({ req }: Call, { isPaid, methods }: Route): boolean =>
  isPaid || isPreflight(req) || (methods !== null && !methods.has('OPTIONS'))

/** HEAD goes wherever GET goes (RFC 9110, section 9.3.2); on a paid link it is the 402 without its body. */
function takes({ methods, isPaid }: Route, method: string): boolean {
  if (methods === null || methods.has(method)) return true
  return method === 'HEAD' && (isPaid || methods.has('GET'))
}
