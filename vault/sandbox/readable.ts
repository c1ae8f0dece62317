import { existsSync, readdirSync, realpathSync } from 'node:fs'
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
 * plugin's own folder without links that lead out of it, and the files that the owner named in its options. Of the folder of the vault, or of the
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
  if (!guarded.some((one) => isWithin(folder, resolve(one)))) return withoutWaysOut(folder)
  // The plugin's process says what is not there.
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && code.test(entry.name))
    .map(({ name }) => join(folder, name))
}

/** More is not looked through. */
const MOST_ENTRIES = 50_000

/**
 * A folder with all that is in it, but for links that lead out of it: Node's permission model looks at the path that is
 * asked for and follows them.
 *
 * @throws {Error} for a folder of very many files
 */
function withoutWaysOut(folder: string): string[] {
  if (!existsSync(folder)) return [join(folder, '*')]
  const real = realpathSync(folder)
  let entries = 0
  const look = (at: string): { readonly paths: string[]; readonly isWhole: boolean } => {
    const paths: string[] = []
    let isWhole = true
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      if (++entries > MOST_ENTRIES)
        throw new Error(`Expected at most ${MOST_ENTRIES} files in the folder of a plugin: ${folder}`)
      const path = join(at, entry.name)
      if (entry.isDirectory()) {
        const inner = look(path)
        paths.push(...inner.paths)
        isWhole &&= inner.isWhole
      } else if (!entry.isSymbolicLink() || leadsInto(real, path)) paths.push(path)
      else isWhole = false
    }
    return isWhole ? { paths: [join(at, '*')], isWhole } : { paths, isWhole }
  }
  return look(folder).paths
}

function leadsInto(folder: string, link: string): boolean {
  try {
    return isWithin(folder, realpathSync(link))
  } catch {
    // Nothing is there, and a plugin can't put anything there.
    return false
  }
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
