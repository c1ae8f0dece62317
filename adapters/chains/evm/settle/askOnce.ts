import type { AskBooks } from './startCounts.ts'

/** Asks the books once for all who want to know at a start, and again where they could not say. */
export function askOnce(ask: AskBooks): AskBooks {
  let asked: ReturnType<AskBooks> | undefined
  return () => {
    asked ??= ask().catch((error: unknown) => {
      asked = undefined
      throw error
    })
    return asked
  }
}
