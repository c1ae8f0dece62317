/** How long a card must stand still before a click on it counts, in ms. */
export const STILL_MS = 500

/**
 * Whether an element has not moved for a while. A button that slides under a finger must not be pressed. Call the returned
 * function often and at the click, because it detects a move only when it is called.
 *
 * @param positionOf the element's position as text, independent of scrolling
 * @param now time in ms
 */
export function createStillness(positionOf: () => string, now = () => performance.now()): () => boolean {
  let element = ''
  let sinceMs = now()
  return () => {
    const seen = positionOf()
    if (seen !== element) {
      element = seen
      sinceMs = now()
    }
    return now() - sinceMs >= STILL_MS
  }
}
