import {
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile } from 'esbuild'
import { buildDocs } from './docs/build/buildDocs.ts'
import type { Manifest } from './render/assets.ts'

const folder = fileURLToPath(new URL('./', import.meta.url))
const dist = join(folder, 'dist')
/** Oldest browsers that are supported. If they lack `light-dark()`, `:has()` or Trusted Types, the pages still work. */
const target = ['chrome123', 'firefox121', 'safari17.5']

/**
 * Builds the browser files into `web/dist/`: each page's `entry.ts` and `page.css`, shared chunks, and `manifest.json`, which
 * maps page names to files. Each file name contains a hash of the content.
 */
export async function buildWeb(): Promise<Manifest> {
  // Each folder is a page. Its `entry.ts` and `page.css` are added to the shared base.
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
  // Two files with the same name have the same bytes. The manifest is written last, so a gateway that reads it during a build
  // finds every file in it.
  for (const { path, contents } of outputFiles) writeFileSync(path, contents)
  writeFileSync(join(dist, 'widget.js'), widget)
  const next = join(dist, `manifest.${process.pid}`)
  writeFileSync(next, JSON.stringify(manifest, null, 2))
  renameSync(next, join(dist, 'manifest.json'))
  return manifest
}

/**
 * Builds the script that shops load into their own pages. It is one classic script and not a module, so that older browsers run
 * it.
 */
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
    // A dynamically imported module is an entry point of its own.
    else if (entryPoint.endsWith('.css'))
      styles[basename(entryPoint) === 'base.css' ? 'base' : page] = nameOf(path)
  }
  return { scripts, styles, icon, files: Object.keys(outputs).map(nameOf) }
}

/** Bundles some packages from their unminified sources, so that the code that browsers receive is readable. */
const readableSources: Readonly<Record<string, string>> = {
  preact: join(folder, '../node_modules/preact/src/index.js'),
  'preact/hooks': join(folder, '../node_modules/preact/hooks/src/index.js'),
  htm: join(folder, '../node_modules/htm/src/index.mjs'),
}

/**
 * Builds the vault's page into `vault/page/dist/`. It has one script and one stylesheet, and static files that are copied
 * unchanged. The vault serves only these files. They are not minified, because the page approves payments, so its code must be
 * readable.
 */
export async function buildVaultPage(): Promise<void> {
  const page = join(folder, '../vault/page')
  const out = join(page, 'dist')
  const { outputFiles } = await build({
    absWorkingDir: join(folder, '..'),
    entryPoints: [join(page, 'app/main.ts'), join(page, 'app/page.css')],
    outdir: out,
    bundle: true,
    format: 'esm',
    write: false,
    target,
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [
      {
        name: 'readable-sources',
        setup: ({ onResolve }) =>
          onResolve({ filter: /^(preact|preact\/hooks|htm)$/ }, ({ path }) => ({
            path: readableSources[path]!,
          })),
      },
    ],
  })
  const files = new Map<string, Uint8Array>(
    outputFiles.map(({ path, contents }) => [basename(path), contents]),
  )
  for (const name of readdirSync(join(page, 'static')))
    files.set(name, readFileSync(join(page, 'static', name)))
  mkdirSync(out, { recursive: true })
  for (const [name, contents] of files) {
    const next = join(out, `.${name}.${process.pid}`)
    writeFileSync(next, contents)
    renameSync(next, join(out, name))
  }
  for (const name of readdirSync(out))
    if (!files.has(name) && !name.startsWith('.')) rmSync(join(out, name), { force: true })
}

if (import.meta.main) {
  await buildVaultPage()
  await buildDocs()
  const { files } = await buildWeb()
  // Old files are deleted last, so a gateway that starts during the build finds its pages.
  const current = new Set([...files, 'manifest.json', 'widget.js'])
  for (const file of globSync('**', {
    cwd: dist,
    exclude: (name) => current.has(name) || name === 'docs' || name.startsWith('manifest.'),
  }))
    if (statSync(join(dist, file)).isFile()) rmSync(join(dist, file), { force: true })
}
