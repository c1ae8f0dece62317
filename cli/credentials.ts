import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from './output/exitCodes.ts'

/**
 * Adds each file of `$CREDENTIALS_DIRECTORY` to the environment under its name, so that a configuration can
 * use a secret as `${NAME}` whether it comes from systemd's `LoadCredential=` or from a variable. A variable
 * that is already set takes precedence.
 *
 * @throws {UsageError} for a folder or a file that cannot be read
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
    throw new UsageError(`Expected CREDENTIALS_DIRECTORY to be a folder of readable files: ${message}`, {
      cause,
    })
  }
}
