import { isTree, type Tree } from './document.ts'

/** As many references lead to one value in no document that somebody wrote. */
const MAX_STEPS = 100

/** Why an operation is left out, in words for its seller. */
export class LeftOut extends Error {
  override readonly name = 'LeftOut'
}

/**
 * The value itself, or what its `$ref` leads to within the document (RFC 6901, sections 4 and 6). Nothing is ever fetched.
 *
 * @throws {LeftOut} for a reference that leads elsewhere, nowhere or in circles
 */
export function follow(root: Tree, value: unknown): unknown {
  let at = value
  for (let steps = 0; isTree(at) && typeof at['$ref'] === 'string'; steps++) {
    if (steps === MAX_STEPS) throw new LeftOut(`The reference ${shown(at['$ref'])} leads in circles.`)
    at = target(root, at['$ref'])
  }
  return at
}

/** What a reference leads to, which may be another reference. @throws {LeftOut} */
export function target(root: Tree, reference: string): unknown {
  if (!reference.startsWith('#'))
    throw new LeftOut(
      `The reference ${shown(reference)} leads out of the document, and nothing is fetched. Bundle the document into one file first.`,
    )
  const nowhere = () => new LeftOut(`The reference ${shown(reference)} leads nowhere in the document.`)
  if (reference !== '#' && !reference.startsWith('#/')) throw nowhere()
  let at: unknown = root
  for (const part of reference.slice(2).split('/')) {
    if (reference === '#') break
    const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) throw nowhere()
    at = (at as Tree)[key]
  }
  return at
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const shown = (reference: unknown): string => JSON.stringify(String(reference).slice(0, 100))
