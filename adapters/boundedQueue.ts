import pLimit from 'p-limit'

/**
 * Creates a queue that runs up to `atOnce` tasks at a time. The others wait in order.
 *
 * @param maxWaiting maximum number of waiting tasks; the queue rejects a further task, because its caller would stop waiting before
 * the task ends
 * @param refusal the error of a rejected task
 */
export function boundedQueue(
  atOnce: number,
  maxWaiting: number,
  refusal: () => Error,
): <T>(work: () => Promise<T>) => Promise<T> {
  const limit = pLimit(atOnce)
  return (work) =>
    limit.activeCount + limit.pendingCount < atOnce + maxWaiting ? limit(work) : Promise.reject(refusal())
}
