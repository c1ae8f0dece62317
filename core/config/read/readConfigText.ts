import { readFile } from 'node:fs/promises'
import { ConfigError } from '../configError.ts'

/**
 * Reads a file as UTF-8, without a byte order mark.
 *
 * @param missingHint what to do when there is no such file
 * @throws {ConfigError} that says why it can't be read
 */
export async function readConfigText(
  file: string,
  missingHint = 'Write one with: tollgate init',
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
  if (code === 'EISDIR') return { message: 'This is a folder, not a file.' }
  if (code === 'EACCES') return { message: 'This file may not be read by the user who runs this program.' }
  return {
    message: code?.startsWith('ERR_ENCODING') ? 'This file is not UTF-8 text.' : 'This file can not be read.',
  }
}
