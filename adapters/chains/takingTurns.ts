/** More than this would wait longer than anybody waits for an answer. */
const MOST_WAITING = 20

/**
 * Makes a line: each piece of work begins when the one before it has ended, however that went. Rejects what would be too
 * far behind.
 */
export function takingTurns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  let waiting = 0
  return (work) => {
    if (waiting >= MOST_WAITING) return Promise.reject(new Error('The line is full.'))
    waiting++
    const turn = last.then(work).finally(() => waiting--)
    last = turn.catch(() => undefined)
    return turn
  }
}
