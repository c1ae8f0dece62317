import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { VaultError } from '../errors/error.ts'
import { pagePath } from '../host/api/pageApi.ts'
import type { Mount } from '../http/server.ts'

const folder = fileURLToPath(new URL('./assets/', import.meta.url))

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.png': 'image/png',
  '.webmanifest': 'application/manifest+json; charset=utf-8',
}

/**
 * What a browser may do with the page: load its own files, speak to its own vault, and nothing else. Nothing inline, no
 * frames (a page that can be framed can be clicked for its owner), no forms that go anywhere, and no text ever becomes
 * markup: Trusted Types has no policy but the one that names the service worker.
 */
const security: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "manifest-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types tollgate-worker',
  ].join('; '),
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=(), usb=()',
}

interface Asset {
  readonly body: Buffer
  readonly type: string
  readonly tag: string
}

/**
 * The approvals page: static files below `/owner/`, read once, served by exact name. They hold nothing secret and anybody on
 * this machine may read them; what the page shows comes from the API, with the owner's session.
 */
export function createOwnerPage(): Mount {
  const assets = readAssets()
  return {
    path: pagePath,
    isPage: true,
    handle(req, res) {
      req.resume()
      const path = req.url!.split('?', 1)[0]!
      if (req.method !== 'GET' && req.method !== 'HEAD') {
        res.setHeader('allow', 'GET, HEAD')
        throw new VaultError('METHOD_NOT_ALLOWED')
      }
      if (path === pagePath) return redirect(res)
      const asset = assets.get(path)
      if (asset === undefined) throw new VaultError('NOT_FOUND')
      const { body, type, tag } = asset
      const headers = { ...security, 'content-type': type, 'cache-control': 'no-cache', etag: tag }
      if (req.headers['if-none-match'] === tag) return void res.writeHead(304, headers).end()
      res.writeHead(200, { ...headers, 'content-length': body.length })
      res.end(req.method === 'HEAD' ? undefined : body)
    },
  }
}

/** The path of each file; the page itself is at `/owner/`. */
function readAssets(): ReadonlyMap<string, Asset> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  const assets = new Map<string, Asset>()
  for (const entry of names) {
    const type = types[extname(entry.name)]
    if (!entry.isFile() || type === undefined) continue
    const file = join(entry.parentPath, entry.name)
    const body = readFileSync(file)
    const name = file.slice(folder.length).replaceAll('\\', '/')
    const tag = `"${createHash('sha256').update(body).digest('base64url')}"`
    assets.set(`${pagePath}/${name === 'index.html' ? '' : name}`, { body, type, tag })
  }
  return assets
}

/** Browsers keep the fragment, and with it the code of a link that was typed without its slash. */
function redirect(res: ServerResponse): void {
  res.writeHead(308, { ...security, location: `${pagePath}/`, 'content-length': 0 }).end()
}
