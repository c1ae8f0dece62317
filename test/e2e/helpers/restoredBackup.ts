import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openStore } from '../../../cli/runtime/open/openStore.ts'
import { readConfig } from '../../../cli/runtime/readConfig.ts'
import { runTollgate } from './child.ts'
import type { ConfigFile } from './config.ts'

const run = promisify(execFile)
/** A schema of many tables, and little in them. */
const MAX_BYTES = 64 * 1_048_576

/**
 * Copies the database of a configuration as it is now.
 *
 * @returns puts the copy in its place again; no process may be using the database then
 */
export async function takeCopy(
  t: Parameters<typeof runTollgate>[0],
  config: ConfigFile,
  env: Readonly<Record<string, string>>,
): Promise<() => Promise<void>> {
  const { storage } = (await readConfig(config.file, env)).config
  const file = join(config.dir, 'older-copy')
  if (storage.postgres !== undefined) {
    const { url, schema } = storage.postgres
    const { stdout } = await run('pg_dump', ['--no-owner', `--schema=${schema}`, url], {
      maxBuffer: MAX_BYTES,
    })
    return async () => {
      const psql = run('psql', ['--quiet', '--set=ON_ERROR_STOP=1', '--output=/dev/null', url])
      psql.child.stdin!.end(`DROP SCHEMA ${schema} CASCADE;\n${stdout}`)
      await psql
    }
  }
  rmSync(file, { force: true })
  const store = await openStore(config.file, env)
  await store.backup!(file)
  await store.close()
  return async () => {
    const { code, stderr } = await runTollgate(t, ['restore', file, '--force', '--config', config.file], env)
      .exited
    if (code !== 0) throw new Error(`the copy was not restored: ${stderr}`)
  }
}
