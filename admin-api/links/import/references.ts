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
export const follow = (root: Tree, value: unknown): unknown => walk(root, value, { count: 0 }).led

/**
 * The same for a path item or an operation. What stands beside its `$ref` stays, and goes before what the reference leads to: a price
 * that is written there counts.
 */
export function followWithSiblings(root: Tree, value: unknown): unknown {
  const { led, beside } = walk(root, value, { count: 0 })
  return isTree(led) ? { ...led, ...beside } : led
}

/** What a reference leads to, which may be another reference. @throws {LeftOut} */
export const target = (root: Tree, reference: string): unknown => find(root, reference, { count: 0 })

/** How many references were followed. */
interface Steps {
  count: number
}

function walk(root: Tree, value: unknown, steps: Steps): { readonly led: unknown; readonly beside: Tree } {
  let led = value
  let beside: Tree = {}
  while (isTree(led) && typeof led['$ref'] === 'string') {
    const { $ref, ...others } = led
    if (++steps.count > MAX_STEPS) throw new LeftOut(`The reference ${shown($ref)} leads in circles.`)
    beside = { ...others, ...beside }
    led = find(root, led['$ref'], steps)
  }
  return { led, beside }
}

function find(root: Tree, reference: string, steps: Steps): unknown {
  if (!reference.startsWith('#'))
    throw new LeftOut(
      `The reference ${shown(reference)} leads out of the document, and nothing is fetched. Import its entry file with \`tollgate link import\`, which reads the files beside it, or bundle it into one file.`,
    )
  const nowhere = () => new LeftOut(`The reference ${shown(reference)} leads nowhere in the document.`)
  if (reference !== '#' && !reference.startsWith('#/')) throw nowhere()
  let at: unknown = root
  for (const part of reference.slice(2).split('/')) {
    if (reference === '#') break
    const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (isTree(at) && !Object.hasOwn(at, key)) at = walk(root, at, steps).led
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
