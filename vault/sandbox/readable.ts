import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, parse, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of this program's own code: of the sources, or of what was built of them. */
const own = fileURLToPath(new URL('../../', import.meta.url))
/** What code can be in; nothing else of a folder that is not the plugin's own. */
const code = /^(?:package\.json|.+\.(?:[cm]?[jt]s))$/

export interface PluginPlace {
  /** As the configuration has it: a file (`./…`, `../…`, `/…`) or a package; not looked at for a built-in one. */
  readonly use: string
  readonly isBuiltIn: boolean
  /** The folder of the configuration. */
  readonly baseDir: string
  /** The folder of the vault, of which nothing is to be read. */
  readonly home: string
  /** Of the built-in plugins, for messages. */
  readonly names: readonly string[]
}

/**
 * What the process of a plugin may read, as Node's `--allow-fs-read` takes it: this program's code, installed packages, the
 * plugin's own folder, and the files that the owner named in its options. Of the folder of the vault, or of the
 * configuration, or of one around these, its code files and nothing else.
 */
export function readableBy(
  { use, isBuiltIn, baseDir, home }: PluginPlace,
  files: readonly string[],
): string[] {
  const root = dirname(resolve(own)) // built, package.json is one folder up
  const paths = [
    ...['core', 'vault', 'node_modules'].map((name) => join(own, name, '*')),
    join(own, 'package.json'),
    join(root, 'package.json'),
    ...packageFolders(own),
    ...files,
  ]
  if (!isBuiltIn) {
    paths.push(...packageFolders(baseDir))
    if (isFile(use)) paths.push(...ownFiles(dirname(resolve(baseDir, use)), [baseDir, home]))
  }
  // A star is Node's wildcard: a path that has one itself would allow more than it says.
  return paths.filter((path) => !path.slice(0, -1).includes('*'))
}

export const isFile = (use: string): boolean => /^(?:\.{1,2})?\//.test(use) || resolve(use) === use

function ownFiles(folder: string, guarded: readonly string[]): string[] {
  if (!guarded.some((one) => isWithin(folder, resolve(one)))) return [join(folder, '*')]
  // The plugin's process says what is not there.
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && code.test(entry.name))
    .map(({ name }) => join(folder, name))
}

/** `node_modules` of a folder and of each one around it, where Node looks for packages. */
function packageFolders(from: string): string[] {
  const folders: string[] = []
  const { root } = parse(from)
  for (let at = resolve(from); ; at = dirname(at)) {
    folders.push(join(at, 'node_modules', '*'))
    if (at === root) return folders
  }
}

const isWithin = (outer: string, inner: string): boolean => {
  const way = relative(outer, inner)
  return way === '' || !(way === '..' || way.startsWith(`..${sep}`) || resolve(way) === way)
}
