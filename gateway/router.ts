import { TollgateError } from '../core/errors/error.ts'
import { errorReply } from '../core/http/errorReply.ts'
import { type LoopMarks, MAX_LINKS_PASSED } from '../core/http/loopMark.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { Program } from '../core/kernel/program.ts'
import type { Door } from '../core/plugin/door.ts'
import { Exchange } from '../core/plugin/exchange.ts'
import type { Reply } from '../core/plugin/reply.ts'
import type { Clock } from '../core/ports/clock.ts'
import { linkNotFound } from '../core/ports/refusals.ts'
import { failureReceipt, unread } from '../core/x402/refusedPayment.ts'
import { type Calls, runCall } from './call.ts'
import { allowOf, corsHeaders, isPreflight, preflightReply } from './cors.ts'
import { type HeadFacts, type LinkTarget, linkPrefix } from './head.ts'
import type { HttpDoor } from './httpDoor.ts'
import type { LiveGeneration } from './liveGeneration.ts'
import type { NoRoute } from './routeTable.ts'
import { Strangers } from './strangers.ts'

/** What the router asks of a head. */
export type CallHead = Pick<HeadFacts, 'paymentHeader' | 'x402Version' | 'passed' | 'hasBody' | 'hasOrigin'>

/** A request for a link, before the link is known. */
export interface Call {
  readonly door: Door
  readonly head: CallHead
  readonly target: LinkTarget
  /** The target as it came. */
  readonly url: string
  readonly clientIp: string
  /** The body, where it came whole. */
  readonly body?: Buffer
  /** The door, where the caller waits for `100 Continue` before it sends its body. */
  readonly waiting?: HttpDoor | undefined
  /** Told of the link's new address instead of being redirected there. */
  readonly onMoved?: (target: string) => void
}

export type Answerable = Pick<Call, 'door' | 'head'>

/** Takes a call to its link. */
export interface Router {
  route(call: Call): void
  notFound(call: Answerable): void
}

export interface RouterParts {
  readonly live: LiveGeneration
  readonly calls: Calls
  readonly clock: Clock
  readonly loopMarks: LoopMarks
}

export function createRouter({ live, calls, clock, loopMarks }: RouterParts): Router {
  const { log } = calls
  const strangers = new Strangers(clock)

  function route(call: Call): void {
    const { generation, table } = live.current
    const found = table.lookup(call.target.key)
    if (found === undefined) ask(call)
    else arrive(call, found, generation)
  }

  /** An address that this process does not know: the store does, but it is not asked for whatever anybody makes up. */
  function ask(call: Call): void {
    const { clientIp, target } = call
    if (!isPossible(target.key)) return notFound(call)
    const at = live.current
    const isFirst = !at.table.isAsking(target.key)
    if (isFirst && !strangers.take(clientIp)) return answerError(call, tooManyUnknown())
    at.table
      .ask(target.key)
      .then((found) => {
        if (isFirst && found.link !== null) strangers.giveBack(clientIp)
        // A reload in between has closed this table, and its generation may be gone.
        if (at === live.current) arrive(call, found, at.generation)
        else route(call)
      })
      .catch((error: unknown) => answerError(call, error))
  }

  function arrive(call: Call, found: Program | NoRoute, generation: Generation): void {
    if (found.link === null) return missing(call, found, generation)
    const { head, door, waiting } = call
    if (head.passed !== null) {
      const fault = loopFault(found.link.id, head.passed)
      if (fault !== undefined) return answerError(call, fault, [], found)
    }
    if (door.method === 'OPTIONS' && isOursToAnswer(call, found)) {
      return answer(call, preflightReply(door, found.methods))
    }
    if (!takes(found, door.method)) {
      const allow = allowOf(found.methods!)
      const error = new TollgateError('method_not_allowed', `Expected one of ${allow}, got ${door.method}.`)
      return answerError(call, error, ['Allow', allow], found)
    }
    // A body that is not paid for need not come, unless a plugin reads it: the 402 is the answer.
    if (waiting !== undefined) {
      if (found.isPaid && head.paymentHeader === null) waiting.owesContinue = true
      else waiting.res.writeContinue()
    }
    enter(call, found, generation)
  }

  /** A link may lead to another one of this gateway, but not back to itself, and not over ever more of them. */
  function loopFault(linkId: string, passed: string): TollgateError | undefined {
    if (passed.includes(loopMarks.ofLink(linkId)))
      return loop('this link itself', "the link's url leads back to it")
    const links = loopMarks.linksPassed(passed)
    if (links <= MAX_LINKS_PASSED) return undefined
    return loop(
      `${links} links of this gateway`,
      `at most ${MAX_LINKS_PASSED} may be in a row before this one`,
    )
  }

  function enter(call: Call, program: Program, generation: Generation, link = program.link): void {
    const { head, target, clientIp, body } = call
    const x = new Exchange(link, {
      door: call.door,
      subPath: target.subPath,
      query: target.query,
      clientIp,
      startedAtMs: clock.now(),
      paymentHeader: head.paymentHeader,
      x402Version: target.asksForV1 ? 1 : head.x402Version,
      hasBody: head.hasBody,
      ...(body !== undefined && { body }),
    })
    if (head.hasOrigin) x.extraHeaders = [...corsHeaders]
    runCall(x, program, generation, calls)
  }

  /** No link there: perhaps it had this address until lately. */
  function missing(call: Call, { movedTo }: NoRoute, generation: Generation): void {
    if (movedTo === undefined) return askByPayment(call, generation)
    // The query as it came: what is the gateway's own in it is asked for again at the new address.
    const { url } = call
    const mark = url.indexOf('?')
    const query = mark === -1 ? '' : url.slice(mark)
    const location = `${linkPrefix}${movedTo.username}/${movedTo.slug}${call.target.subPath}${query}`
    if (call.onMoved !== undefined) return call.onMoved(location)
    // 308 keeps method and body (RFC 9110, section 15.4.9). The address may be another link's any time.
    const headers = ['Location', location, 'Content-Length', '0', 'Cache-Control', 'no-store']
    answer(call, { status: 308, headers, body: null })
  }

  /**
   * A payment may have bought a call while there was a link. It is looked up, which costs the check of a signature, so it is
   * counted like an address that the store is asked for.
   */
  function askByPayment(call: Call, generation: Generation): void {
    const { head, door, clientIp } = call
    if (head.paymentHeader === null || door.method === 'HEAD' || door.method === 'OPTIONS')
      return notFound(call)
    const { table, generation: current } = live.current
    const former = generation === current ? table.former : null
    if (former === null) return notFound(call)
    if (!strangers.take(clientIp)) return answerError(call, tooManyUnknown())
    // Whoever reads the body asks for it.
    if (call.waiting !== undefined) call.waiting.owesContinue = true
    const [username, slug] = call.target.key.split('/') as [string, string]
    enter(call, former, generation, { ...former.link, username, slug })
  }

  function answer(call: Answerable, reply: Reply, extra: readonly string[] = []): void {
    const headers = call.head.hasOrigin && reply.status !== 204 ? [...corsHeaders, ...extra] : extra
    call.door.send(reply, headers)
  }

  /** Whoever came with a payment keeps it, and hears so. */
  function answerError(
    call: Answerable,
    error: unknown,
    extra: readonly string[] = [],
    program: Program | null = null,
  ): void {
    const { door } = call
    const { reply, code } = errorReply(error, log, door.requestId)
    const { x402Version, paymentHeader } = call.head
    const isPresented = program?.isPaid !== false && paymentHeader !== null
    const network = program?.offer?.network ?? calls.assets[0]?.network
    const receipt = isPresented ? failureReceipt(unread(x402Version), error, reply.status, network) : []
    answer(call, reply, [...extra, ...receipt])
    const { requestId, method } = door
    calls.accessLog?.unrouted({ requestId, method, status: reply.status, code, isPresented })
  }

  const notFound = (call: Answerable) => answerError(call, linkNotFound())

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

const loop = (forwarders: string, why: string) =>
  new TollgateError(
    'loop_detected',
    `Expected a call from outside, got one that ${forwarders} forwarded: ${why}. You were not charged.`,
  )

/** A preflight, any OPTIONS of a paid link (it would be a way past the price), and one that the link does not list. */
const isOursToAnswer = ({ door }: Call, { isPaid, methods }: Program): boolean =>
  isPaid || isPreflight(door) || (methods !== null && !methods.has('OPTIONS'))

/** HEAD goes wherever GET goes (RFC 9110, section 9.3.2); on a paid link it is the 402 without its body. */
function takes({ methods, isPaid }: Program, method: string): boolean {
  if (methods === null || methods.has(method)) return true
  return method === 'HEAD' && (isPaid || methods.has('GET'))
}
