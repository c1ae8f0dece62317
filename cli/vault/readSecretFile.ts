import { readFileSync, statSync } from 'node:fs'
import { isatty } from 'node:tty'
import { UsageError } from '../output/exitCodes.ts'

const MAX_BYTES = 65_536

/**
 * The text of a file that holds a secret, or of standard input for `-`; one line end at its end is not part of it.
 *
 * @param warn is told when others may read the file
 * @throws {UsageError} when it can't be read, is empty, or too large
 */
export function readSecretFile(file: string, warn: (text: string) => void): string {
  let text: string
  try {
    if (file !== '-') {
      const { mode, size } = statSync(file)
      if (size > MAX_BYTES) throw new UsageError(`Expected at most ${MAX_BYTES} bytes in ${file}.`)
      if ((mode & 0o077) !== 0) warn(`Others may read ${file}; give it mode 0600.`)
    }
    const isTyped = file === '-' && isatty(0)
    if (isTyped) process.stderr.write('Type it here; Enter and Ctrl-D end it.\n')
    // A terminal by its own name: after a password was asked for, standard input does not wait for what is typed.
    text = readFileSync(isTyped ? '/dev/tty' : file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`Can't read ${file}: ${(error as NodeJS.ErrnoException).code ?? 'unknown reason'}.`)
  }
  const value = text.replace(/\r?\n$/, '')
  if (value === '')
    throw new UsageError(`Expected a text in ${file === '-' ? 'standard input' : file}, it is empty.`)
  return value
}
