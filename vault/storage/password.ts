import { VaultError } from '../errors/error.ts'

const shortest = 8
const longest = 1024

/** @throws `VALIDATION_ERROR` for a password that a new vault, or a change of password, does not take. */
export function assertPassword(password: string): void {
  const length = typeof password === 'string' ? [...password].length : 0
  if (length >= shortest && length <= longest) return
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected a password of ${shortest} to ${longest} characters, got ${length}.`,
  )
}
