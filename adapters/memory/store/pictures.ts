import type { Pictures } from '../../../core/ports/store/pictures.ts'
import type { Access } from './access.ts'
import type { Memory } from './memory.ts'

/** Pictures in memory, by store. */
export function createPictures(memory: Memory, { read, write }: Access): Pictures {
  const { pictures, stores } = memory.tables
  return {
    set: (storeId, picture, avatarUrl, updatedAtMs) =>
      write('flushed', () => {
        const store = stores.get(storeId)
        if (store === undefined) return
        pictures.set(storeId, picture)
        stores.set(storeId, { ...store, avatarUrl, updatedAtMs })
        memory.note({ kind: 'store', username: store.username })
      }),

    find: (hash) => read(() => pictures.values().find((picture) => picture.hash === hash)),
  }
}
