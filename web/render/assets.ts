import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

/** `npm run web` writes here; the npm package brings it. */
const folder = fileURLToPath(new URL('../dist/', import.meta.url))

/** What the build says of itself. */
export interface Manifest {
  /** Page name → its script, and what that imports at once. */
  readonly scripts: Readonly<Record<string, readonly string[]>>
  /** Page name → its stylesheet; `base` is everybody's. */
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
}

let manifest: Manifest | undefined

/** @throws when the pages were never built */
export function webManifest(): Manifest {
  try {
    manifest ??= JSON.parse(readFileSync(`${folder}manifest.json`, 'utf8')) as Manifest
    return manifest
  } catch (cause) {
    throw new Error('The pages are not built. Run: npm run web', { cause })
  }
}

/** The address of a built file. Its name changes with its bytes, so it may be kept for ever. */
export const assetPath = (name: string): string => `/assets/${name}`

const kept = new Map<string, Asset>()

/** A built file, by its exact name; compressed once. */
export function readAsset(name: string): Asset | undefined {
  const present = kept.get(name)
  if (present !== undefined || !webManifest().files.includes(name)) return present
  return read(name)
}

export interface Widget extends Asset {
  /** A strong one (RFC 9110, section 8.8.3), quoted. */
  readonly etag: string
}

let widget: Widget | undefined

/** The script of shops' pages: under a name of its own, because shops write it into theirs. */
export function readWidget(): Widget {
  if (widget === undefined) {
    const asset = read('widget.js')
    widget = { ...asset, etag: `"${hash('sha256', asset.plain, 'base64url').slice(0, 16)}"` }
  }
  return widget
}

function read(name: string): Asset {
  const plain = readFileSync(folder + name)
  const asset = {
    type: types[extname(name)] ?? 'application/octet-stream',
    plain,
    gzip: gzipSync(plain, { level: 9 }),
    brotli: brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  }
  kept.set(name, asset)
  return asset
}
