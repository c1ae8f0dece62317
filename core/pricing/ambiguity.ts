/**
 * A part of a request that two readers could read differently. If the gateway guessed its meaning, a buyer could choose a spelling
 * that the gateway reads as a cheap request and the seller's API reads as an expensive request.
 */
export class Unclear {
  /** What was expected and what came, in one sentence. */
  readonly problem: string

  constructor(problem: string) {
    this.problem = problem
  }
}

/** A value of a request. Undefined if the request does not have this value. */
export type Fact = string | Unclear | undefined

/**
 * A text as the most lenient reader compares it. Such a reader cuts a text at a NUL, and ignores case and spaces at the ends. The
 * function converts to upper case first, because some other letters become an ASCII letter only in upper case (`ſ` becomes `S`).
 */
export const folded = (text: string): string => text.split('\0', 1)[0]!.trim().toUpperCase().toLowerCase()

/** A name as the most lenient reader compares it. For example, protocol buffers read `maxTokens` and `max_tokens` alike in JSON. */
export const foldedName = (name: string): string => folded(name).replace(/[-_]/g, '')

/** A name from a request, quoted and shortened for a message. */
export const shown = (name: string): string =>
  JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}…` : name)
