import { CLOCK_BEHIND_MS, type Leases } from '../../../core/ports/store/leases.ts'
import type { Access } from './access.ts'
import type { LeaseRow, Memory } from './memory.ts'

/** Also of a lease that was given before the machine's last start, see {@link CLOCK_BEHIND_MS}. */
export const isOver = ({ expiresAtMs, ttlMs }: LeaseRow, nowMs: number): boolean =>
  expiresAtMs <= nowMs || expiresAtMs > nowMs + ttlMs + CLOCK_BEHIND_MS

/** Leases in memory, by the store's clock. */
export function createLeases(memory: Memory, { read, write }: Access): Leases {
  const { tables, storeClock } = memory
  const { leases } = tables
  const put = (id: number, name: string, ttlMs: number) =>
    leases.set(name, { id, name, ttlMs, expiresAtMs: storeClock.now() + ttlMs })

  return {
    holderOf: (name) =>
      read(() => {
        const present = leases.get(name)
        if (present === undefined || isOver(present, storeClock.now())) return undefined
        return { id: present.id, endsInMs: present.expiresAtMs - storeClock.now(), process: null }
      }),

    heldNames: (prefix) =>
      read(() =>
        [...leases.values()]
          .filter((row) => row.name.startsWith(prefix) && !isOver(row, storeClock.now()))
          .map(({ name }) => name),
      ),

    take: (name, ttlMs) =>
      write('flushed', () => {
        const present = leases.get(name)
        if (present !== undefined && !isOver(present, storeClock.now())) return undefined
        const id = memory.nextId()
        put(id, name, ttlMs)
        return { id, name }
      }),

    renew: ({ id, name }, ttlMs) =>
      write('visible', () => {
        if (leases.get(name)?.id !== id) return false
        put(id, name, ttlMs)
        return true
      }),

    release: ({ id, name }) =>
      write('visible', () => {
        if (leases.get(name)?.id === id) leases.delete(name)
      }),
  }
}
