import { readFileSync } from 'node:fs'

/** The fields of this program's package.json. */
export function ownPackage(): {
  readonly version?: string
  readonly devDependencies?: Readonly<Record<string, string>>
} {
  const own = new URL('../package.json', import.meta.url)
  // The compiled file is one folder deeper than the source.
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
