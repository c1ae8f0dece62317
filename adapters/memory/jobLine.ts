import type { JobLine } from '../../core/ports/jobLine.ts'
import type { Log } from '../../core/ports/log.ts'

/** The line within the process that runs the jobs. A listener that throws does not keep a note from the others. */
export function createJobLine(log: Log): JobLine {
  const listeners = new Map<string, Set<(note: unknown) => void>>()
  return {
    isHere: true,
    post(topic, note) {
      for (const listener of [...(listeners.get(topic) ?? [])]) {
        try {
          listener(note)
        } catch (err) {
          log.error({ err, topic }, 'a job could not take a note')
        }
      }
    },
    hear(topic, listener) {
      const all = listeners.get(topic) ?? new Set()
      listeners.set(topic, all)
      const own = (note: unknown) => listener(note)
      all.add(own)
      return () => void all.delete(own)
    },
  }
}
