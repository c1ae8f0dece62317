import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'

const folder = join(import.meta.dirname, '../../../shared/vectors')

/** One file of the shared test vectors, unpacked and parsed; undefined where it is not there, so that tests can skip. */
export function readVectors<T>(name: string): T | undefined {
  const file = join(folder, name)
  if (!existsSync(file)) return undefined
  const bytes = readFileSync(file)
  return JSON.parse((name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')) as T
}

/** The part of a Wycheproof file that every kind of test shares. */
export interface Wycheproof<Group> {
  readonly testGroups: readonly Group[]
}
