import type { JsonListener } from './jsonScanner.ts'

/** Tokens of a call of a language model. */
export interface Tokens {
  /** Input tokens that were not read from the cache. */
  readonly input: bigint
  readonly cached: bigint
  readonly output: bigint
}

/**
 * The fields with token counts, below `usage` (OpenAI, Anthropic) or `usageMetadata` (Gemini).
 *
 * OpenAI and Gemini count cached tokens as input tokens too. Anthropic counts them apart.
 */
const fields = new Set([
  'usage/prompt_tokens',
  'usage/prompt_tokens_details/cached_tokens',
  'usage/completion_tokens',
  'usage/input_tokens',
  'usage/input_tokens_details/cached_tokens',
  'usage/cache_read_input_tokens',
  'usage/cache_creation_input_tokens',
  'usage/output_tokens',
  'usageMetadata/promptTokenCount',
  'usageMetadata/toolUsePromptTokenCount',
  'usageMetadata/cachedContentTokenCount',
  'usageMetadata/candidatesTokenCount',
  'usageMetadata/thoughtsTokenCount',
])

/** Longest path of {@link fields}, with an index and an envelope before it. */
const MAX_DEPTH = 5

/**
 * Reads the token counts of a response. Of a field that occurs several times in a stream, the last value counts, because streams
 * report totals so far (Anthropic: `message_start` and `message_delta`; Gemini: each chunk).
 */
export class TokenCounts implements JsonListener {
  readonly #counts = new Map<string, bigint>()
  /** The counts of a document that has not ended. */
  readonly #read = new Map<string, bigint>()

  scalar(path: readonly (string | null)[], text: string, isNumber: boolean): void {
    if (!isNumber || path.length < 2 || path.length > MAX_DEPTH || !/^\d{1,15}$/.test(text)) return
    const field = path.slice(enclosing(path)).join('/')
    if (fields.has(field)) this.#read.set(field, BigInt(text))
  }

  document(): void {
    for (const [field, count] of this.#read) this.#counts.set(field, count)
    this.#read.clear()
  }

  dropped(): void {
    this.#read.clear()
  }

  /** The counts so far. Undefined if the response has none. */
  get tokens(): Tokens | undefined {
    if (this.#counts.size === 0) return undefined
    const prompt = this.#first('usage/prompt_tokens', 'usage/input_tokens', 'usageMetadata/promptTokenCount')
    const included = this.#first(
      'usage/prompt_tokens_details/cached_tokens',
      'usage/input_tokens_details/cached_tokens',
      'usageMetadata/cachedContentTokenCount',
    )
    const apart = this.#first('usage/cache_read_input_tokens')
    const written = this.#first('usage/cache_creation_input_tokens')
    const tools = this.#first('usageMetadata/toolUsePromptTokenCount')
    const answer = this.#first(
      'usage/completion_tokens',
      'usage/output_tokens',
      'usageMetadata/candidatesTokenCount',
    )
    // A service that counts more cached tokens than input tokens counts them apart.
    const uncached = included > prompt ? 0n : prompt - included
    return {
      input: uncached + written + tools,
      cached: prompt - uncached + apart,
      output: answer + this.#first('usageMetadata/thoughtsTokenCount'),
    }
  }

  /** The first of these fields that the response has. A service may write the same count under two names. */
  #first(...names: readonly string[]): bigint {
    for (const name of names) {
      const count = this.#counts.get(name)
      if (count !== undefined) return count
    }
    return 0n
  }
}

/**
 * Number of path entries around the usage: the index of Gemini's list of chunks, and the envelope of OpenAI's
 * `response.completed` or Anthropic's `message_start`.
 */
function enclosing(path: readonly (string | null)[]): number {
  const from = path[0] !== null && /^\d+$/.test(path[0]!) ? 1 : 0
  return path[from] === 'response' || path[from] === 'message' ? from + 1 : from
}
