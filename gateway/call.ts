import { errorReply } from '../core/http/errorReply.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { PostAnswerStep } from '../core/kernel/program.ts'
import { passed, run } from '../core/kernel/run.ts'
import type { Exchange } from '../core/plugin/exchange.ts'
import { handled, type Reply } from '../core/plugin/reply.ts'
import type { Log } from '../core/ports/log.ts'
import { failureReceipt } from './failureReceipt.ts'
import type { Route } from './routeTable.ts'

/**
 * Runs one call through its link's program and answers it, through whichever door it came. The generation stays open until
 * the call has ended.
 */
export function runCall(x: Exchange, route: Route, generation: Generation, log: Log): void {
  generation.enter()
  let outcome: Reply | Promise<Reply>
  try {
    outcome = run(route.program.hooks, x, route.program.check)
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
  if (reply === passed) {
    if (x.status === 0 && !x.door.hasBegun && !x.door.isClosed) answer(x, route, ...unanswered(x, log), log)
  } else if (reply !== handled) answer(x, route, reply, error, log)
  for (const step of route.program.postAnswer) {
    try {
      const late: unknown = step.hook(x)
      if (late instanceof Promise) late.catch((err: unknown) => noteFailure(x, log, step, err))
    } catch (err) {
      noteFailure(x, log, step, err)
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

function noteFailure(x: Exchange, log: Log, { plugin, phase }: PostAnswerStep, err: unknown): void {
  log.error({ err, plugin, phase, linkId: x.link.id }, 'a hook after the answer failed')
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
    x.isUnsent = !x.door.send(reply, x.extraHeaders)
    // A plugin has begun another one, and can't end it now.
    if (x.isUnsent && x.door.hasBegun && !x.door.hasEnded) x.door.cutOff()
  } catch (err) {
    // A plugin gave something that is no reply, or a head with characters that may not stand in one.
    const { reply: plain, code } = errorReply(err, log)
    x.status = plain.status
    x.reply = null
    x.errorCode ??= code
    if (x.upgrade === null && !x.door.hasBegun) x.door.send(plain, null)
    else x.door.cutOff()
  }
}

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
