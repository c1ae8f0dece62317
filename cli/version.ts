import { readFileSync } from 'node:fs'

/** The version of this program, of its package.json. */
export function version(): string {
  const own = new URL('../package.json', import.meta.url)
  // Built, this file is one folder deeper.
  const text = readIfThere(own) ?? readIfThere(new URL('../../package.json', import.meta.url)) ?? '{}'
  return JSON.parse(text).version ?? '0.0.0'
}

function readIfThere(url: URL): string | undefined {
  try {
    return readFileSync(url, 'utf8')
  } catch {
    return undefined
  }
}
