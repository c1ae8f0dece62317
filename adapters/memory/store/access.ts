import { storeUnavailable } from '../../../core/ports/refusals.ts'
import type { Durability } from '../../../core/ports/store/books.ts'
import type { Memory } from './memory.ts'

/** One process's way to the memory: done at once, told by a promise, and refused once it was closed. */
export interface Access {
  read<T>(run: () => T): Promise<T>
  write<T>(durability: Durability, run: () => T): Promise<T>
  close(): void
}

export function createAccess(memory: Memory): Access {
  let isClosed = false
  const open = () => {
    if (isClosed) throw storeUnavailable('it was closed')
  }
  return {
    async read(run) {
      open()
      return run()
    },
    async write(durability, run) {
      open()
      return memory.write(durability, run)
    },
    close() {
      isClosed = true
    },
  }
}
