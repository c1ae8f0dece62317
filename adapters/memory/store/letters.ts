import type { Log } from '../../../core/ports/log.ts'
import type { Letter, Letters } from '../../../core/ports/store/letters.ts'
import type { Access } from './access.ts'
import type { Memory } from './memory.ts'

/** Letters in memory, heard in the turn after they were posted. */
export function createLetters({ letters }: Memory, { read }: Access, log: Log): Letters {
  function deliver(): void {
    const { listeners } = letters
    const due = letters.waiting.filter(({ to }) => listeners.has(to))
    letters.waiting = letters.waiting.filter(({ to }) => !listeners.has(to))
    for (const letter of due) {
      try {
        listeners.get(letter.to)?.(letter)
      } catch (err) {
        log.error({ err }, 'a letter could not be taken')
      }
    }
  }
  return {
    post: (posted) =>
      read(() => {
        letters.waiting.push(...posted.map(copied))
        setImmediate(deliver)
      }),
    listen(to, hear) {
      letters.listeners.set(to, hear)
      setImmediate(deliver)
      return () => {
        if (letters.listeners.get(to) === hear) letters.listeners.delete(to)
      }
    },
  }
}

const copied = ({ to, from, body }: Letter): Letter => ({ to, from, body: Uint8Array.from(body) })
