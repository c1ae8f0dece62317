import { readFileSync } from 'node:fs'

/** What this program's package.json says. */
export function ownPackage(): {
  readonly version?: string
  readonly devDependencies?: Readonly<Record<string, string>>
} {
  const own = new URL('../package.json', import.meta.url)
  // Built, this file is one folder deeper.
  return JSON.parse(readIfThere(own) ?? readIfThere(new URL('../../package.json', import.meta.url)) ?? '{}')
}

export const version = (): string => ownPackage().version ?? '0.0.0'

function readIfThere(url: URL): string | undefined {
  try {
    return readFileSync(url, 'utf8')
  } catch {
    return undefined
  }
}
