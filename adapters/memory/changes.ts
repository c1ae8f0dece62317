import type { JobChannel } from '../../core/ports/jobChannel.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Change, Changes } from '../../core/ports/store/changes.ts'

/** Changes within this process. A listener that throws does not affect the others. */
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
      // The wrapper makes each subscription a separate entry, even if the same function subscribes twice.
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

/** The job channel within the process that runs the jobs. A listener that throws does not affect the others. */
export function createJobChannel(log: Log): JobChannel {
  const listeners = new Map<string, Set<(note: unknown) => void>>()
  return {
    isHere: true,
    post(topic, note) {
      for (const listener of [...(listeners.get(topic) ?? [])]) {
        try {
          listener(note)
        } catch (err) {
          log.error({ err, topic }, 'a job could not process a message')
        }
      }
    },
    listen(topic, listener) {
      const all = listeners.get(topic) ?? new Set()
      listeners.set(topic, all)
      const own = (note: unknown) => listener(note)
      all.add(own)
      return () => void all.delete(own)
    },
  }
}
