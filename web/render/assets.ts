import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

/** The folder to which `npm run web` writes. The npm package includes it. */
const folder = fileURLToPath(new URL('../dist/', import.meta.url))

/** Output of the build. */
export interface Manifest {
  /** The script of each page, by name, and the modules that the script imports statically. */
  readonly scripts: Readonly<Record<string, readonly string[]>>
  /** The stylesheet of each page, by name. Every page also uses `base`. */
  readonly styles: Readonly<Record<string, string>>
  readonly icon: string
  /** Every file that is served. */
  readonly files: readonly string[]
}

export interface Asset {
  readonly type: string
  readonly plain: Buffer
  readonly gzip: Buffer
  readonly brotli: Buffer
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.png': 'image/png',
}

let manifest: Manifest | undefined

/** @throws if the pages have not been built */
export function webManifest(): Manifest {
  try {
    manifest ??= JSON.parse(readFileSync(`${folder}manifest.json`, 'utf8')) as Manifest
    return manifest
  } catch (cause) {
    throw new Error('The pages are not built. Run: npm run web', { cause })
  }
}

/** URL path of a built file. The name changes with the content, so browsers may cache the file forever. */
export const assetPath = (name: string): string => `/assets/${name}`

const cached = new Map<string, Asset>()

/** A built file, by its exact name. It is compressed once. */
export function readAsset(name: string): Asset | undefined {
  const present = cached.get(name)
  if (present !== undefined || !webManifest().files.includes(name)) return present
  return read(name)
}

export interface Widget extends Asset {
  /** Strong ETag (RFC 9110, section 8.8.3), quoted. */
  readonly etag: string
}

let widget: Widget | undefined

/** The script for shops' pages. Its name never changes, because shops write the name into their pages. */
export function readWidget(): Widget {
  if (widget === undefined) {
    const asset = read('widget.js')
    widget = { ...asset, etag: `"${hash('sha256', asset.plain, 'base64url').slice(0, 16)}"` }
  }
  return widget
}

function read(name: string): Asset {
  const asset = toAsset(name, readFileSync(folder + name))
  cached.set(name, asset)
  return asset
}

/** A file with each of its encodings. */
export const toAsset = (name: string, plain: Buffer): Asset => ({
  type: types[extname(name)] ?? 'application/octet-stream',
  plain,
  gzip: gzipSync(plain, { level: 9 }),
  brotli: brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
})
