import { createHash } from 'node:crypto'
import type { PasswordHasher } from '../../../vault/storage/password/kdf.ts'

/** A password hasher without the work, for tests of everything around it. */
export const quickHasher: PasswordHasher = {
  hash: async (password, salt, { memoryKiB, passes, lanes }) =>
    createHash('sha256').update(`${memoryKiB} ${passes} ${lanes} ${password}`).update(salt).digest(),
}
