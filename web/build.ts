import { globSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile } from 'esbuild'
import type { Manifest } from './render/assets.ts'

const folder = fileURLToPath(new URL('./', import.meta.url))
const dist = join(folder, 'dist')
/** Browsers that have `light-dark()`, `:has()` and Trusted Types or do well without. */
const target = ['chrome123', 'firefox121', 'safari17.5']

/**
 * Builds what browsers load into `web/dist/`: each page's `entry.ts` and `page.css`, with what several of them import in
 * files of its own, all named by their content, and `manifest.json`, which says which is which.
 */
export async function buildWeb(): Promise<Manifest> {
  // A page is a folder: its script and its styles are what it needs beside everybody's.
  const inputs = [
    'styles/base.css',
    'styles/mark.svg',
    ...globSync(['*/entry.ts', '*/page.css'], { cwd: folder }),
  ]
  const { metafile, outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: inputs.map((file) => join(folder, file)),
    outdir: dist,
    outbase: folder,
    entryNames: '[dir]-[hash]',
    chunkNames: 'part-[hash]',
    assetNames: '[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    minify: true,
    metafile: true,
    write: false,
    target,
    loader: { '.svg': 'copy' },
    legalComments: 'none',
    logLevel: 'warning',
  })
  const manifest = manifestOf(metafile)
  const widget = await buildWidget()
  mkdirSync(dist, { recursive: true })
  // Files of one name have the same bytes; whoever reads the list meanwhile finds all that it names.
  for (const { path, contents } of outputFiles) writeFileSync(path, contents)
  writeFileSync(join(dist, 'widget.js'), widget)
  const next = join(dist, `manifest.${process.pid}`)
  writeFileSync(next, JSON.stringify(manifest, null, 2))
  renameSync(next, join(dist, 'manifest.json'))
  return manifest
}

/** The script that shops load into pages of theirs: one file, no module, for older browsers too. */
async function buildWidget(): Promise<Uint8Array> {
  const { outputFiles } = await build({
    entryPoints: [join(folder, 'widget/widget.ts')],
    bundle: true,
    format: 'iife',
    minify: true,
    write: false,
    target: 'es2020',
    legalComments: 'none',
    logLevel: 'warning',
  })
  return outputFiles[0]!.contents
}

function manifestOf({ outputs }: Metafile): Manifest {
  const nameOf = (path: string) => relative(dist, join(folder, path)).replaceAll('\\', '/')
  const scripts: Record<string, string[]> = {}
  const styles: Record<string, string> = {}
  let icon = ''
  for (const [path, output] of Object.entries(outputs)) {
    const { entryPoint } = output
    if (entryPoint === undefined) continue
    const page = dirname(entryPoint)
    if (basename(entryPoint) === 'entry.ts') {
      const imported = output.imports.filter(({ kind }) => kind === 'import-statement')
      scripts[page] = [path, ...imported.map((one) => one.path)].map(nameOf)
    } else if (entryPoint.endsWith('.svg')) icon = nameOf(path)
    // What is imported later is an entry of its own, too.
    else if (entryPoint.endsWith('.css'))
      styles[basename(entryPoint) === 'base.css' ? 'base' : page] = nameOf(path)
  }
  return { scripts, styles, icon, files: Object.keys(outputs).map(nameOf) }
}

if (import.meta.main) {
  const { files } = await buildWeb()
  // Afterwards: a gateway that starts from here meanwhile finds its pages.
  const current = new Set([...files, 'manifest.json', 'widget.js'])
  for (const file of globSync('**', {
    cwd: dist,
    exclude: (name) => current.has(name) || name.startsWith('manifest.'),
  }))
    if (statSync(join(dist, file)).isFile()) rmSync(join(dist, file), { force: true })
}
