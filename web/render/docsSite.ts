import { hash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Asset, toAsset } from './assets.ts'

/** The folder to which `npm run web` writes the documentation. The npm package includes it. */
const folder = fileURLToPath(new URL('../dist/docs/', import.meta.url))

export interface DocsFile extends Asset {
  /** A weak ETag, because the file is sent in several encodings (RFC 9110, section 8.8.1). */
  readonly etag: string
}

/**
 * The files of the documentation, by their path on the site, such as `/docs.css`. A path that ends with `/` is the folder's
 * `index.html`. Each file is read and compressed once.
 *
 * @param header markup that replaces the site's own name in every page
 * @throws if the documentation was not built
 */
export function openDocs(header: string): (path: string) => DocsFile | undefined {
  const names = new Set(globSync('**/*.*', { cwd: folder }).map((name) => `/${name.replaceAll('\\', '/')}`))
  if (!names.has('/index.html')) throw new Error('The documentation is not built. Run: npm run web')
  const cached = new Map<string, DocsFile>()
  return (path) => {
    const name = path.endsWith('/') ? `${path}index.html` : path
    if (!names.has(name)) return undefined
    const present = cached.get(name)
    if (present !== undefined) return present
    const bytes = readFileSync(join(folder, name))
    const plain = name.endsWith('.html') ? Buffer.from(withHeader(bytes.toString(), header)) : bytes
    const etag = `W/"${hash('sha256', plain, 'base64url').slice(0, 22)}"`
    const file = { ...toAsset(name, plain), etag }
    cached.set(name, file)
    return file
  }
}

const withHeader = (page: string, header: string): string =>
  page.replace(/<!-- service -->[\s\S]*?<!-- \/service -->/, () => header)
