/** Pauses before each further try, in ms: together longer than a database takes to come back. */
const PAUSES_MS = [200, 1_000, 5_000, 15_000, 30_000, 60_000]

/**
 * Makes a write that nobody waits for, and makes it again while the store is away. The write has to be conditional, so
 * that doing it late or twice is harmless.
 *
 * @param onGivenUp called with the last failure when every try has failed
 */
export function insist(write: () => Promise<unknown>, onGivenUp: (error: unknown) => void): void {
  const attempt = (pause: number): void => {
    write().catch((error: unknown) => {
      const waitMs = PAUSES_MS[pause]
      if (waitMs === undefined) onGivenUp(error)
      else setTimeout(attempt, waitMs, pause + 1).unref()
    })
  }
  attempt(0)
}
