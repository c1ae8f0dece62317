import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { UsageError } from '../output/exitCodes.ts'

/** Longest path of a Unix socket that every system takes (sun_path). */
const longestSocketPath = 103

/** The folder of the vault: what was said, `TOLLGATE_VAULT_HOME`, or `~/.tollgate/vault`. */
export const vaultHome = (
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string => resolve(given ?? env['TOLLGATE_VAULT_HOME'] ?? join(homedir(), '.tollgate', 'vault'))

/** Where the owner's socket of a vault is. @throws {UsageError} when the path is too long for one */
export function ownerSocket(home: string, given: string | undefined): string {
  const path = given === undefined ? join(home, 'owner.sock') : resolve(given)
  if (Buffer.byteLength(path) <= longestSocketPath) return path
  throw new UsageError(
    `The path of the owner's socket is longer than ${longestSocketPath} bytes: ${path}. Name a shorter one with --socket.`,
  )
}
