/** How long something must have stood still before a click on it counts. */
export const stillMs = 500

/**
 * Tells whether something has stood in its place for a while: what slides under a finger must not be what the finger
 * presses. Ask it often and at the click itself: it knows of a move from the moment it is asked.
 *
 * @param {() => string} placeOf where it is now, as text; scrolling by the reader is no move
 * @param {() => number} [now] milliseconds
 * @returns {() => boolean}
 */
export function createStillness(placeOf, now = () => performance.now()) {
  let place = ''
  let sinceMs = now()
  return () => {
    const seen = placeOf()
    if (seen !== place) {
      place = seen
      sinceMs = now()
    }
    return now() - sinceMs >= stillMs
  }
}
