/** A plugin as far as its ports are concerned. */
interface Needing {
  readonly name: string
  readonly needs: readonly string[]
}

/**
 * The ports that a plugin named in `needs`, and no others: what it did not ask for is not there at run time.
 *
 * @returns the frozen ports; the name of the first one that this host does not have
 */
export function grantPorts(
  plugin: Needing,
  ports: object,
): { readonly ports: Readonly<Record<string, unknown>> } | { readonly missing: string } {
  const granted: Record<string, unknown> = {}
  for (const need of plugin.needs) {
    if (!Object.hasOwn(ports, need)) return { missing: need }
    granted[need] = (ports as Record<string, unknown>)[need]
  }
  return { ports: Object.freeze(granted) }
}
