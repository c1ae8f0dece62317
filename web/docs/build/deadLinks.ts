import { dirname, join } from 'node:path/posix'

export interface BuiltPage {
  /** Path below the site's folder, such as `tutorials/sell-your-api.html`. */
  readonly path: string
  readonly html: string
}

/**
 * Links, anchors and pictures that lead nowhere, as lines to print.
 * @param files files of the site that are not pages
 */
export function deadLinks(pages: readonly BuiltPage[], files: readonly string[]): string[] {
  const anchors = new Map(
    pages.map(({ path, html }) => [path, new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!))]),
  )
  const known = new Set([...anchors.keys(), ...files])
  return pages.flatMap(({ path, html }) =>
    [...html.matchAll(/ (?:href|src|action)="([^"]*)"/g)].flatMap(([, address = '']) => {
      if (/^(https?|mailto):/.test(address)) return []
      const [file = '', anchor] = address.split('#').map(decodeURI)
      const target = file === '' ? path : join(dirname(path), file!)
      const isDead = !known.has(target) || (anchor !== undefined && !anchors.get(target)?.has(anchor))
      return isDead ? [`${path} → ${address}`] : []
    }),
  )
}
