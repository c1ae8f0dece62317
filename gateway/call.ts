import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { errorReply } from '../core/http/errorReply.ts'
import type { Generation } from '../core/kernel/generation.ts'
import { run } from '../core/kernel/run.ts'
import { Exchange } from '../core/plugin/exchange.ts'
import { handled, type Reply } from '../core/plugin/reply.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import { corsHeaders } from './cors.ts'
import { failureReceipt } from './failureReceipt.ts'
import type { HeadFacts } from './head.ts'
import type { Route } from './routeTable.ts'
import { send, sendOnSocket } from './send.ts'
import type { LinkTarget } from './target.ts'

/** Everything of one call before its link's program runs. */
export interface Call {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly head: HeadFacts
  readonly target: LinkTarget
  readonly clientIp: string
  readonly upgrade: { readonly socket: Duplex; readonly head: Buffer } | null
}

/** Runs one call through its link's program and answers it. The generation stays open until the call has ended. */
export function runCall(call: Call, route: Route, generation: Generation, clock: Clock, log: Log): void {
  const x = new Exchange({
    req: call.req,
    res: call.res,
    link: route.link,
    subPath: call.target.subPath,
    query: call.target.query,
    clientIp: call.clientIp,
    startedAtMs: clock.now(),
    upgrade: call.upgrade,
    paymentHeader: call.head.paymentHeader,
    x402Version: call.target.asksForV1 ? 1 : call.head.x402Version,
    hasBody: call.head.hasBody,
  })
  if (call.head.hasOrigin) x.extraHeaders = [...corsHeaders]
  generation.enter()
  let outcome: Reply | Promise<Reply>
  try {
    outcome = run(route.program.hooks, x)
  } catch (error) {
    return fail(x, route, generation, log, error)
  }
  if (!(outcome instanceof Promise)) return finish(x, route, generation, log, outcome)
  outcome.then(
    (reply) => finish(x, route, generation, log, reply),
    (error: unknown) => fail(x, route, generation, log, error),
  )
}

/** Nothing that a plugin does may end the process here, or keep the generation from closing. */
function finish(
  x: Exchange,
  route: Route,
  generation: Generation,
  log: Log,
  reply: Reply,
  error: unknown = null,
): void {
  if (reply !== handled) answer(x, route, reply, error, log)
  else if (x.status === 0 && x.upgrade === null && !x.res.headersSent && !x.res.destroyed)
    answer(x, route, ...unanswered(x, log), log)
  for (const hook of route.program.logs) {
    try {
      const late: unknown = hook(x)
      if (late instanceof Promise) late.catch((err: unknown) => logFailed(x, log, err))
    } catch (err) {
      logFailed(x, log, err)
    }
  }
  generation.leave()
}

/** Every hook passed and none has answered: the configuration lacks the plugin that calls the seller. */
function unanswered(x: Exchange, log: Log): [reply: Reply, error: unknown] {
  const error = new Error(`no plugin answers calls of link ${x.link.id}`)
  const { reply, code } = errorReply(error, log)
  x.errorCode = code
  return [reply, error]
}

function logFailed(x: Exchange, log: Log, err: unknown): void {
  log.error({ err, linkId: x.link.id }, 'a log hook failed')
}

function fail(x: Exchange, route: Route, generation: Generation, log: Log, error: unknown): void {
  const { reply, code } = errorReply(error, log)
  x.errorCode ??= code
  finish(x, route, generation, log, reply, error)
}

function answer(x: Exchange, route: Route, given: Reply, error: unknown, log: Log): void {
  try {
    const reply = route.isPaid && x.paymentHeader !== null ? withReceipt(x, given, error) : given
    x.status = reply.status
    x.reply = reply
    x.isUnsent = !sendTo(x, reply)
  } catch (err) {
    // A plugin gave something that is no reply, or a head with characters that may not stand in one.
    const { reply: plain, code } = errorReply(err, log)
    x.status = plain.status
    x.reply = null
    x.errorCode ??= code
    if (x.upgrade === null && !x.res.headersSent) send(x.res, plain, null)
    else (x.upgrade?.socket ?? x.res).destroy()
  }
}

const sendTo = (x: Exchange, reply: Reply): boolean =>
  x.upgrade === null
    ? send(x.res, reply, x.extraHeaders)
    : sendOnSocket(x.res, x.upgrade.socket, reply, x.extraHeaders)

/**
 * A reply to a call that came with a payment, with the receipt that it lacks: what a plugin of one's own refuses, or answers
 * instead of the seller, says what became of the payment like everything else. The seller's own refusal passes as it is.
 */
function withReceipt(x: Exchange, reply: Reply, error: unknown): Reply {
  if (error === null && x.upstreamStatus >= 400) return reply
  if (reply.headers.some(isReceipt)) return reply
  const receipt = failureReceipt(x, error, reply.status)
  return receipt.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...receipt] }
}

const isReceipt = (text: string): boolean =>
  (text.length === 16 || text.length === 18) && /^(?:x-)?payment-response$/i.test(text)
