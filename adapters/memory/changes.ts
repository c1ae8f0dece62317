import type { Change, Changes } from '../../core/ports/store/changes.ts'

/** Changes within this process. A listener that throws does not keep the news from the others. */
export function createChanges(): Changes {
  const listeners = new Set<(change: Change) => void>()
  return {
    publish(change) {
      const errors: unknown[] = []
      for (const listener of [...listeners]) {
        try {
          listener(change)
        } catch (error) {
          errors.push(error)
        }
      }
      if (errors.length > 0) throw new AggregateError(errors, 'A listener of changes failed.')
    },
    subscribe(listener) {
      // Wrapped, so that one function subscribed twice is two subscriptions.
      const own = (change: Change) => listener(change)
      listeners.add(own)
      return () => {
        listeners.delete(own)
      }
    },
    async close() {
      listeners.clear()
    },
  }
}
