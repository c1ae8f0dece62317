import { readFile } from 'node:fs/promises'
import { ConfigError } from '../check/problem.ts'

/**
 * Reads a file as UTF-8, and removes a byte order mark.
 *
 * @param missingHint what to do if there is no such file
 * @throws {ConfigError} with the reason if the file cannot be read
 */
export async function readConfigText(
  file: string,
  missingHint = 'Create one with: tollgate init',
): Promise<string> {
  try {
    const bytes = await readFile(file)
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    const problem = {
      severity: 'error',
      file,
      line: 0,
      column: 0,
      length: 0,
      path: '',
      ...unreadable(cause, missingHint),
    } as const
    throw new ConfigError([problem], '', { cause })
  }
}

function unreadable(cause: unknown, missingHint: string): { message: string; hint?: string } {
  const code = (cause as NodeJS.ErrnoException).code
  if (code === 'ENOENT') return { message: 'There is no such file.', hint: missingHint }
  if (code === 'EISDIR') return { message: 'Expected a file, but this is a folder.' }
  if (code === 'EACCES') return { message: 'The user that runs this program may not read this file.' }
  return {
    message: code?.startsWith('ERR_ENCODING') ? 'This file is not UTF-8 text.' : 'This file cannot be read.',
  }
}
