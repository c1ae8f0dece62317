import { RpcRefused, RpcUnreachable } from './rpcError.ts'

/** Longest message of a node that is kept. */
const MAX_MESSAGE_CHARS = 300

/** What a node says to one call. A refusal (JSON-RPC error) is an answer: asking another node would not change it. */
export type RpcAnswer =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly error: RpcRefused }

/** What came of one call among many: as above, or that no node answered this one. */
export type LooseAnswer = RpcAnswer | { readonly ok: false; readonly error: RpcUnreachable }

/**
 * JSON-RPC codes by which nodes say "too many requests" (EIP-1474 -32005), "I can't now", or, on Solana, that they are
 * not well (-32005) or behind (-32016). Another node may do better.
 */
const busyCodes = new Set([-32005, -32016, 429])

/** Reads one item of an answer. One with an error is a refusal, whatever result stands beside it. @throws {RpcUnreachable} */
export function readAnswer(item: unknown): RpcAnswer {
  if (typeof item !== 'object' || item === null) throw malformed()
  const error = errorOf(item)
  if (error === undefined && Object.hasOwn(item, 'result')) {
    return { ok: true, result: (item as { result: unknown }).result }
  }
  const { code, message, data } = error ?? {}
  if (typeof code !== 'number') throw malformed()
  assertNotBusy(code)
  const words = String(message ?? 'no message').slice(0, MAX_MESSAGE_CHARS)
  return { ok: false, error: new RpcRefused(code, words, data) }
}

/** As {@link readAnswer}, for one of many: what can't be read is this call's own fault. */
export function readLoosely(item: unknown): LooseAnswer {
  try {
    return readAnswer(item)
  } catch (error) {
    return { ok: false, error: error as RpcUnreachable }
  }
}

/** The result of an answer, `null` too. @throws {RpcRefused} {RpcUnreachable} where there is none */
export function resultOf(answer: LooseAnswer | undefined): unknown {
  if (answer?.ok) return answer.result
  throw answer?.error ?? new RpcUnreachable('the node left out an answer')
}

/** Whether this item stands for a whole batch that the node is too busy for. @throws {RpcUnreachable} when it is */
export function assertNotBusy(code: unknown): void {
  if (busyCodes.has(code as number)) throw new RpcUnreachable(`it is busy (code ${code})`)
}

/** The error of an item, which may be anything; undefined for none. Some nodes write `null` beside a result. */
export function errorOf(item: unknown): Record<string, unknown> | undefined {
  return ((item as { error?: unknown } | null)?.error ?? undefined) as Record<string, unknown> | undefined
}

const malformed = () => new RpcUnreachable('a malformed JSON-RPC answer')
