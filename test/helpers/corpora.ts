import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const folder = join(import.meta.dirname, '../../../shared/corpora')

/** A list of bad input from the shared corpora, one entry a line or one a JSON string; undefined where it is not there. */
export function readCorpus(name: string): readonly string[] | undefined {
  const file = join(folder, name)
  if (!existsSync(file)) return undefined
  const text = readFileSync(file, 'utf8')
  if (name.endsWith('.json')) return JSON.parse(text) as string[]
  return text.split('\n').filter((line) => line !== '')
}
