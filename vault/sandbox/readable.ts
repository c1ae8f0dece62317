import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { dirname, join, parse, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of this program's own code: the sources, or the build output. */
const own = fileURLToPath(new URL('../../', import.meta.url))
/** Names of code files. In a folder that is not the plugin's own, only these are readable. */
const code = /^(?:package\.json|.+\.(?:[cm]?[jt]s))$/

export interface PluginPlace {
  /**
   * The value of `use` in the configuration, which is a file (`./…`, `../…`, `/…`) or a package. Ignored for a built-in plugin.
   */
  readonly use: string
  readonly isBuiltIn: boolean
  /** The folder of the configuration. */
  readonly baseDir: string
  /** The folder of the vault, which is never readable. */
  readonly home: string
  /** Names of the built-in plugins, for messages. */
  readonly names: readonly string[]
}

/**
 * The files that a plugin's process may read, in the form of Node's `--allow-fs-read`. These are this program's code, installed
 * packages, the plugin's own folder without links that lead out of it, and the files that the owner named in its options. In
 * the folders of the vault and the configuration, and in their parent folders, only code files are readable.
 */
export function readableBy(
  { use, isBuiltIn, baseDir, home }: PluginPlace,
  files: readonly string[],
): string[] {
  const root = dirname(resolve(own)) // in the build output, package.json is one folder up
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
  // A path with a star is left out. Node would read the star as a wildcard and allow more than that path.
  return paths.filter((path) => !path.slice(0, -1).includes('*'))
}

export const isFile = (use: string): boolean => /^(?:\.{1,2})?\//.test(use) || resolve(use) === use

function ownFiles(folder: string, guarded: readonly string[]): string[] {
  if (!guarded.some((one) => isWithin(folder, resolve(one)))) return withoutLinksOut(folder)
  // If the folder is missing, the plugin's process reports it.
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && code.test(entry.name))
    .map(({ name }) => join(folder, name))
}

/** Maximum files of a plugin's folder that are checked. */
const MAX_ENTRIES = 50_000

/**
 * A folder with all its content, except for links that lead out of it. Node's permission model checks the requested path and
 * then follows links.
 *
 * @throws {Error} for a folder with too many files
 */
function withoutLinksOut(folder: string): string[] {
  if (!existsSync(folder)) return [join(folder, '*')]
  const real = realpathSync(folder)
  let entries = 0
  const scan = (at: string): { readonly paths: string[]; readonly isWhole: boolean } => {
    const paths: string[] = []
    let isWhole = true
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      if (++entries > MAX_ENTRIES)
        throw new Error(`Expected at most ${MAX_ENTRIES} files in the folder of a plugin: ${folder}`)
      const path = join(at, entry.name)
      if (entry.isDirectory()) {
        const inner = scan(path)
        paths.push(...inner.paths)
        isWhole &&= inner.isWhole
      } else if (!entry.isSymbolicLink() || leadsInto(real, path)) paths.push(path)
      else isWhole = false
    }
    return isWhole ? { paths: [join(at, '*')], isWhole } : { paths, isWhole }
  }
  return scan(folder).paths
}

function leadsInto(folder: string, link: string): boolean {
  try {
    return isWithin(folder, realpathSync(link))
  } catch {
    // The path does not exist, and a plugin cannot create it.
    return false
  }
}

/** The folders `node_modules` in a folder and in all its parents, where Node looks for packages. */
function packageFolders(from: string): string[] {
  const folders: string[] = []
  const { root } = parse(from)
  for (let at = resolve(from); ; at = dirname(at)) {
    folders.push(join(at, 'node_modules', '*'))
    if (at === root) return folders
  }
}

const isWithin = (outer: string, inner: string): boolean => {
  const path = relative(outer, inner)
  return path === '' || !(path === '..' || path.startsWith(`..${sep}`) || resolve(path) === path)
}
