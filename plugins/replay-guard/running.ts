import { paidReply } from '../../core/payments/paidReply.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply } from '../../core/plugin/reply.ts'
import { inUse } from './repeat.ts'

/** A call under way that others with the same payment wait for. */
export interface Running {
  readonly purchaseId: string
  readonly linkId: string
  readonly hash: string | null
  readonly reply: Promise<Reply | null>
  finish(reply: Reply | null): void
}

export function createRunning(purchaseId: string, linkId: string, hash: string | null): Running {
  const { promise, resolve } = Promise.withResolvers<Reply | null>()
  return { purchaseId, linkId, hash, reply: promise, finish: resolve }
}

/**
 * Shares the first call's fate, a failure too: whoever asks at the same time must not make the seller work again.
 * @returns the first call's reply; undefined when it was not a whole one or is late, and the store has to say.
 */
export async function join(
  first: Running,
  x: Exchange,
  hash: string | null,
  waitMs: number,
): Promise<Reply | undefined> {
  if (hash === null || first.hash !== hash || first.linkId !== x.link.id) throw inUse(first)
  const late = Promise.withResolvers<null>()
  const timer = setTimeout(late.resolve, Math.max(waitMs, 0), null)
  const reply = await Promise.race([first.reply, late.promise])
  clearTimeout(timer)
  return reply ?? undefined
}

/** What those who waited for this call get; null when they have to look for themselves. */
export function sharedReply(x: Exchange): Reply | null {
  // That the first caller hung up is nobody else's failure.
  if (x.upstreamOutcome === 'buyer-left') return null
  if (x.reply !== null) return x.reply
  // A stream that was kept: put together as a stored one would be.
  const { answer, purchase, settlement } = x
  if (answer === null || answer.tunnel !== null || purchase === null || settlement === null) return null
  return paidReply(answer, answer.mediaType, purchase, settlement.headers, true)
}
