/** A JSON pointer (RFC 6901) to one value of a configuration, such as `/plugins/2/with/windowMs`. */
export type Pointer = string

export const childPointer = (parent: Pointer, key: string | number): Pointer =>
  `${parent}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`

export const segmentsOf = (pointer: Pointer): string[] =>
  pointer === ''
    ? []
    : pointer
        .slice(1)
        .split('/')
        .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))

export const parentPointer = (pointer: Pointer): Pointer => pointer.slice(0, pointer.lastIndexOf('/'))

export const isInside = (pointer: Pointer, ancestor: Pointer): boolean =>
  pointer === ancestor || pointer.startsWith(`${ancestor}/`)

/** The path as a person writes it, such as `plugins[2].with.windowMs` or `networks["eip155:8453"].rpcUrls[0]`. */
export function displayPath(pointer: Pointer, tree?: unknown): string {
  let shown = ''
  let value = tree
  for (const segment of segmentsOf(pointer)) {
    shown += Array.isArray(value) ? `[${segment}]` : displayKey(segment, shown === '')
    value = childOf(value, segment)
  }
  return shown
}

const displayKey = (key: string, isFirst: boolean): string => {
  if (!/^[A-Za-z_$][\w$-]*$/.test(key)) return `[${JSON.stringify(key)}]`
  return isFirst ? key : `.${key}`
}

/** The value at a pointer. Undefined if there is none. Never reads inherited properties. */
export const valueAt = (tree: unknown, pointer: Pointer): unknown => segmentsOf(pointer).reduce(childOf, tree)

function childOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
  return (value as Record<string, unknown>)[key]
}

/** Sets the value at a pointer. `undefined` removes it. The parent must exist. */
export function setAt(tree: unknown, pointer: Pointer, value: unknown): void {
  const parent = valueAt(tree, parentPointer(pointer)) as Record<string, unknown>
  const key = segmentsOf(pointer).at(-1)!
  if (value === undefined) delete parent[key]
  else parent[key] = value
}
