import { LRUCache } from 'lru-cache'
import { TollgateError } from '../core/errors/error.ts'
import { type LoopMarks, MAX_LINKS_PASSED } from '../core/http/loopMark.ts'
import { errorReply, type Reply } from '../core/http/replies.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { Pipeline } from '../core/kernel/pipeline.ts'
import { failureReceipt, unread } from '../core/offers/refusedPayment.ts'
import { Exchange } from '../core/plugin/exchange.ts'
import type { Transport } from '../core/plugin/transport.ts'
import type { Clock } from '../core/ports/clock.ts'
import { linkNotFound } from '../core/ports/refusals.ts'
import { signInName } from '../core/x402/signIn.ts'
import { type Calls, runCall } from './call.ts'
import { allowOf, corsHeaders, isPreflight, preflightReply } from './cors.ts'
import { type HeadFacts, type LinkTarget, linkPrefix } from './head.ts'
import type { HttpTransport } from './httpTransport.ts'
import type { LiveGeneration, NoRoute } from './routeTable.ts'

/** The parts of a request's head that the router reads. */
type CallHead = Pick<HeadFacts, 'paymentHeader' | 'x402Version' | 'passed' | 'hasBody' | 'hasOrigin'>

/** A request for a link, before the link is known. */
interface Call {
  readonly transport: Transport
  readonly head: CallHead
  readonly target: LinkTarget
  /** The target as received. */
  readonly url: string
  readonly clientIp: string
  /** The body, if it arrived before the call started. Otherwise undefined. */
  readonly body?: Buffer
  /** The transport, if the caller waits for `100 Continue` before it sends its body. Otherwise undefined. */
  readonly waiting?: HttpTransport | undefined
  /** Called with the link's new address instead of sending a redirect. */
  readonly onMoved?: (target: string) => void
}

type Answerable = Pick<Call, 'transport' | 'head'>

/** Routes a call to its link. */
export class Router {
  readonly #live: LiveGeneration
  readonly #calls: Calls
  readonly #clock: Clock
  readonly #loopMarks: LoopMarks
  readonly #strangers: Strangers

  constructor(live: LiveGeneration, calls: Calls, clock: Clock, loopMarks: LoopMarks) {
    this.#live = live
    this.#calls = calls
    this.#clock = clock
    this.#loopMarks = loopMarks
    this.#strangers = new Strangers(clock)
  }

  route(call: Call): void {
    const { generation, table } = this.#live.current
    const found = table.lookup(call.target.key)
    if (found === undefined) this.#dispatch(call)
    else this.#arrive(call, found, generation)
  }

  /**
   * Queries the database for an address that this process has not cached. The gateway limits these queries, because callers can
   * invent addresses.
   */
  #dispatch(call: Call): void {
    const { clientIp, target } = call
    if (!isPossible(target.key)) return this.notFound(call)
    const at = this.#live.current
    const isFirst = !at.table.isLoading(target.key)
    if (isFirst && !this.#strangers.take(clientIp)) return this.#responseError(call, tooManyUnknown())
    at.table
      .load(target.key)
      .then((found) => {
        if (isFirst && found.link !== null) this.#strangers.refund(clientIp)
        // A reload has closed this table in the meantime, and perhaps also its generation.
        if (at === this.#live.current) this.#arrive(call, found, at.generation)
        else this.route(call)
      })
      .catch((error: unknown) => this.#responseError(call, error))
  }

  #arrive(call: Call, found: Pipeline | NoRoute, generation: Generation): void {
    if (found.link === null) return this.#missing(call, found, generation)
    const { head, transport, waiting } = call
    if (head.passed !== null) {
      const fault = this.#loopFault(found.link.id, head.passed)
      if (fault !== undefined) return this.#responseError(call, fault, [], found)
    }
    if (transport.method === 'OPTIONS' && isOursToAnswer(call, found)) {
      return this.#respond(call, preflightReply(transport, found.methods))
    }
    const pipeline = isSignedIn(call, found) ? found.signedIn! : found
    if (!takes(pipeline, transport.method) && !mayBeRefund(pipeline, transport.method)) {
      const allow = allowOf(found.methods!)
      const error = new TollgateError(
        'method_not_allowed',
        `Expected one of ${allow}, got ${transport.method}.`,
      )
      return this.#responseError(call, error, ['Allow', allow], found)
    }
    // A call that gets the 402 needs no body, unless a plugin reads it.
    if (waiting !== undefined) {
      if (found.isPaid && head.paymentHeader === null) waiting.owesContinue = true
      else waiting.res.writeContinue()
    }
    this.#enter(call, pipeline, generation)
  }

  /**
   * The error for a loop. A link may lead to other links of this gateway, but not back to itself, and not through an unlimited
   * number of links.
   */
  #loopFault(linkId: string, passed: string): TollgateError | undefined {
    if (passed.includes(this.#loopMarks.ofLink(linkId)))
      return loop('this link itself', "the link's URL leads back to the link")
    const links = this.#loopMarks.linksPassed(passed)
    if (links <= MAX_LINKS_PASSED) return undefined
    return loop(
      `${links} links of this gateway`,
      `at most ${MAX_LINKS_PASSED} links may be in a row before this link`,
    )
  }

  #enter(call: Call, pipeline: Pipeline, generation: Generation, link = pipeline.link): void {
    const { head, target, clientIp, body } = call
    const x = new Exchange(link, {
      transport: call.transport,
      subPath: target.subPath,
      query: target.query,
      clientIp,
      startedAtMs: this.#clock.now(),
      paymentHeader: head.paymentHeader,
      x402Version: target.asksForV1 ? 1 : head.x402Version,
      hasBody: head.hasBody,
      ...(body !== undefined && { body }),
    })
    if (head.hasOrigin) x.extraHeaders = [...corsHeaders]
    runCall(x, pipeline, generation, this.#calls)
  }

  /** Handles a call to an address that no link has now. A link may have had the address until recently. */
  #missing(call: Call, { movedTo }: NoRoute, generation: Generation): void {
    if (movedTo === undefined) return this.#askByPayment(call, generation)
    // The redirect keeps the query as received, because the new address needs the gateway's own parameters too.
    const { url } = call
    const mark = url.indexOf('?')
    const query = mark === -1 ? '' : url.slice(mark)
    const location = `${linkPrefix}${movedTo.username}/${movedTo.slug}${call.target.subPath}${query}`
    if (call.onMoved !== undefined) return call.onMoved(location)
    // 308 keeps method and body (RFC 9110, section 15.4.9). The response must not be cached, because another link may get the
    // address at any time.
    const headers = ['Location', location, 'Content-Length', '0', 'Cache-Control', 'no-store']
    this.#respond(call, { status: 308, headers, body: null })
  }

  /**
   * Checks whether the payment has bought a call while a link had the address. The check includes a signature check, so it counts
   * against the same limit as a database query for an unknown address.
   */
  #askByPayment(call: Call, generation: Generation): void {
    const { head, transport, clientIp } = call
    if (head.paymentHeader === null || transport.method === 'HEAD' || transport.method === 'OPTIONS')
      return this.notFound(call)
    const { table, generation: current } = this.#live.current
    const former = generation === current ? table.former : null
    if (former === null) return this.notFound(call)
    if (!this.#strangers.take(clientIp)) return this.#responseError(call, tooManyUnknown())
    // The gateway sends `100 Continue` when a plugin reads the body.
    if (call.waiting !== undefined) call.waiting.owesContinue = true
    const [username, slug] = call.target.key.split('/') as [string, string]
    this.#enter(call, former, generation, { ...former.link, username, slug })
  }

  #respond(call: Answerable, reply: Reply, extra: readonly string[] = []): void {
    const headers = call.head.hasOrigin && reply.status !== 204 ? [...corsHeaders, ...extra] : extra
    call.transport.send(reply, headers)
  }

  /** Sends the error for a call. If the call has a payment, the response says that the payment remains usable. */
  #responseError(
    call: Answerable,
    error: unknown,
    extra: readonly string[] = [],
    pipeline: Pipeline | null = null,
  ): void {
    const { transport } = call
    const { reply, code } = errorReply(error, this.#calls.log, transport.requestId)
    const { x402Version, paymentHeader } = call.head
    const isPresented = pipeline?.isPaid !== false && paymentHeader !== null
    const network = pipeline?.offer?.network ?? this.#calls.assets[0]?.network
    const receipt = isPresented ? failureReceipt(unread(x402Version), error, reply.status, network) : []
    this.#respond(call, reply, [...extra, ...receipt])
    const { requestId, method } = transport
    this.#calls.accessLog?.unrouted({ requestId, method, status: reply.status, code, isPresented })
  }

  notFound(call: Answerable): void {
    this.#responseError(call, linkNotFound())
  }
}

/** A username and a slug consist of letters, digits, `_` and `-`. No link has another address. */
const possible = /^[\w-]{1,64}\/[\w-]{1,64}$/
const isPossible = (key: string) => possible.test(key)

const tooManyUnknown = () =>
  new TollgateError(
    'rate_limited',
    'Too many calls to addresses that no link has. Check the seller and the slug.',
    {
      retryAfterSeconds: 1,
    },
  )

/** Whether a call comes with a sign-in to a link that has such calls. A call that also has a payment is paid. */
const isSignedIn = ({ head, transport }: Call, { signedIn }: Pipeline): boolean =>
  signedIn !== null && head.paymentHeader === null && transport.header(signInName) !== undefined

const loop = (forwarders: string, why: string) =>
  new TollgateError(
    'loop_detected',
    `Expected a call from outside this gateway, got one that ${forwarders} forwarded: ${why}. You were not charged.`,
  )

/**
 * Whether the gateway responds to an OPTIONS request itself. It does so for a preflight, for a link that does not list OPTIONS, and
 * for a paid link, because the seller's response would bypass the price.
 */
const isOursToAnswer = ({ transport }: Call, { isPaid, methods }: Pipeline): boolean =>
  isPaid || isPreflight(transport) || (methods !== null && !methods.has('OPTIONS'))

/** Whether a client of payment channels may be requesting a refund. The x402 plugin refuses every other call of this method. */
const mayBeRefund = ({ offer }: Pipeline, method: string): boolean =>
  method === 'GET' && offer?.hasChannels === true

/**
 * Whether a pipeline supports a method. GET includes HEAD (RFC 9110, section 9.3.2). In a paid pipeline, HEAD gets the 402 without
 * its body.
 */
function takes({ methods, isPaid }: Pipeline, method: string): boolean {
  if (methods === null || methods.has(method)) return true
  return method === 'HEAD' && (isPaid || methods.has('GET'))
}

/**
 * Maximum lookups of unknown addresses that a client may cause at once. `PER_SECOND` is how many more it may cause each second
 * after that.
 */
const BURST = 200
const PER_SECOND = 10
const MAX_CLIENTS = 10_000

interface Bucket {
  taken: number
  atMs: number
}

/**
 * Limits how often each client makes the gateway query the database for addresses that no link has. Guessing addresses then costs
 * the database only a limited number of queries. Each process counts for itself, because the limit protects that process's own
 * queries.
 */
class Strangers {
  readonly #buckets = new LRUCache<string, Bucket>({ max: MAX_CLIENTS })
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Uses one lookup of a client. @returns false if the client has none left now */
  take(clientIp: string): boolean {
    const client = clientOf(clientIp)
    const nowMs = this.#clock.now()
    const bucket = this.#buckets.get(client) ?? { taken: 0, atMs: nowMs }
    const refilled = Math.max(0, ((nowMs - bucket.atMs) / 1000) * PER_SECOND)
    bucket.taken = Math.max(0, bucket.taken - refilled)
    bucket.atMs = nowMs
    if (bucket.taken + 1 > BURST) return false
    bucket.taken++
    this.#buckets.set(client, bucket)
    return true
  }

  /** Returns a lookup to the client, because a link has the address. */
  refund(clientIp: string): void {
    const bucket = this.#buckets.get(clientOf(clientIp))
    if (bucket !== undefined) bucket.taken = Math.max(0, bucket.taken - 1)
  }
}

/** The key by which a client is counted. For an IPv6 address this is the /64, because one customer has a whole /64 (RFC 6177). */
function clientOf(ip: string): string {
  if (!ip.includes(':') || ip.startsWith('::ffff:')) return ip
  const at = ip.indexOf('::')
  const parts = (at === -1 ? ip : ip.slice(0, at)).split(':')
  return parts.slice(0, 4).join(':')
}
