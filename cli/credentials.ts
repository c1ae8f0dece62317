import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from './output/exitCodes.ts'

/**
 * Adds each file of `$CREDENTIALS_DIRECTORY` to the environment by its name, so that a configuration names a secret as `${NAME}`
 * whether systemd's `LoadCredential=` or a variable holds it. A variable that is set wins.
 *
 * @throws {UsageError} for a folder or a file that can't be read
 */
export function addCredentials(env: Record<string, string | undefined>): void {
  const folder = env['CREDENTIALS_DIRECTORY']
  if (folder === undefined) return
  try {
    for (const name of readdirSync(folder))
      if (/^[A-Z_][A-Z0-9_]*$/.test(name))
        env[name] ??= readFileSync(join(folder, name), 'utf8').replace(/\r?\n$/, '')
  } catch (cause) {
    const { message } = cause as Error
    throw new UsageError(`Expected CREDENTIALS_DIRECTORY to name a folder of readable files: ${message}`, {
      cause,
    })
  }
}
