import { readFileSync, statSync } from 'node:fs'
import { isatty } from 'node:tty'
import { UsageError } from '../output/exitCodes.ts'

const MAX_BYTES = 65_536

/** Fails where a byte is no UTF-8; with replacement characters instead, different passwords would become the same one. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * The text of a secret; a byte order mark at its start is not part of it. Undefined for bytes in another encoding, such as
 * Windows-1251 or UTF-16 (which has NUL bytes).
 */
export function decodeSecret(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * The text of a file that holds a secret, or of standard input for `-`; one line end at its end is not part of it.
 *
 * @param warn receives a sentence when other users may read the file
 * @throws {UsageError} when it can't be read, is empty, too large, or not UTF-8
 */
export function readSecretFile(file: string, warn: (text: string) => void): string {
  let bytes: Buffer
  try {
    if (file !== '-') {
      const { mode, size } = statSync(file)
      if (size > MAX_BYTES) throw new UsageError(`Expected at most ${MAX_BYTES} bytes in ${file}.`)
      if ((mode & 0o077) !== 0) warn(`Others may read ${file}; give it mode 0600.`)
    }
    const isTyped = file === '-' && isatty(0)
    if (isTyped) process.stderr.write('Type it here; Enter and Ctrl-D end it.\n')
    // A terminal by its own name: after a password was asked for, standard input does not wait for what is typed.
    bytes = readFileSync(isTyped ? '/dev/tty' : file === '-' ? 0 : file)
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`Can't read ${file}: ${(error as NodeJS.ErrnoException).code ?? 'unknown reason'}.`)
  }
  const name = file === '-' ? 'standard input' : file
  const value = decodeSecret(bytes)?.replace(/\r?\n$/, '')
  if (value === undefined)
    throw new UsageError(
      `Expected a text in UTF-8, ${name} is not UTF-8. Save it as UTF-8; write random bytes as hexadecimal digits.`,
    )
  if (value === '') throw new UsageError(`Expected a text in ${name}, it is empty.`)
  return value
}
