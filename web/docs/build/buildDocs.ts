/// <reference path="./eleventy.d.ts" />
import { globSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Eleventy from '@11ty/eleventy'
import { build } from 'esbuild'
import { type BuiltPage, deadLinks } from './deadLinks.ts'
import { searchRecords } from './searchRecords.ts'
import { fileOf } from './sections.ts'

/** The site's own scripts and styles. */
const here = join(import.meta.dirname, '..')
const root = join(here, '../..')
const docs = join(root, 'docs')
const out = join(here, '../dist/docs')

/**
 * Builds the documentation into `web/dist/docs/`. It has a page for each file of `docs/`, the pictures, one stylesheet, the
 * scripts and the search records. All addresses in it are relative, and nothing is loaded from another site.
 *
 * @throws when a link, an anchor or a picture leads nowhere
 */
export async function buildDocs(): Promise<void> {
  const pages = await renderPages()
  const files = new Map<string, string | Uint8Array>([
    ['mark.svg', readFileSync(join(here, '../styles/mark.svg'))],
    ['records.js', `globalThis.searchRecords = ${JSON.stringify(searchRecords(pages))}\n`],
    ...(await bundles()),
  ])
  for (const picture of globSync('pictures/*.png', { cwd: docs }))
    files.set(picture, readFileSync(join(docs, picture)))
  const dead = deadLinks(pages, [...files.keys()])
  if (dead.length > 0) throw new Error(`The documentation has dead links:\n${dead.join('\n')}`)

  for (const { path, html } of pages) files.set(path, html)
  for (const [path, content] of files) write(path, content)
  for (const path of globSync('**', { cwd: out }))
    if (!files.has(path) && statSync(join(out, path)).isFile()) rmSync(join(out, path), { force: true })
}

async function renderPages(): Promise<BuiltPage[]> {
  // Eleventy resolves its files from the working directory.
  const before = process.cwd()
  process.chdir(root)
  try {
    const eleventy = new Eleventy('docs', 'web/dist/docs', {
      quietMode: true,
      configPath: 'web/docs/build/eleventy.config.ts',
    })
    return (await eleventy.toJSON()).map(({ url, content }) => ({
      path: fileOf(url).slice(1),
      html: content,
    }))
  } finally {
    process.chdir(before)
  }
}

/** The bundles are classic scripts, because a browser loads no modules from a disk. */
async function bundles(): Promise<[string, Uint8Array][]> {
  const { outputFiles } = await build({
    absWorkingDir: here,
    entryPoints: ['docs.css', 'docs.ts', 'search.ts'].map((name) => join(here, name)),
    outdir: out,
    bundle: true,
    format: 'iife',
    minify: true,
    write: false,
    target: ['chrome123', 'firefox121', 'safari17.5'],
    legalComments: 'none',
    logLevel: 'warning',
  })
  return outputFiles.map(({ path, contents }) => [path.slice(out.length + 1), contents])
}

/** Writes a file under another name first, so that a gateway that reads the file meanwhile gets a complete one. */
function write(path: string, content: string | Uint8Array): void {
  const file = join(out, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.${process.pid}`, content)
  renameSync(`${file}.${process.pid}`, file)
}
