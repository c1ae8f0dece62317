import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { VaultError } from '../errors/error.ts'
import { pagePath } from '../host/api/lockApi.ts'
import type { Mount } from '../http/server.ts'

/** The folder to which `npm run web` writes the bundle. The npm package includes it. */
const bundle = fileURLToPath(new URL('./dist/', import.meta.url))

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.png': 'image/png',
  '.webmanifest': 'application/manifest+json; charset=utf-8',
}

/**
 * The page may load only its own files and connect only to its own vault. It has no inline code, no form targets, and no
 * frames, in which the owner's clicks could be hijacked. No text becomes markup, because the only Trusted Types policy is for
 * the service worker's URL.
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
 * The approvals page: the bundle's files below `/owner/`, read once and served by exact name. The files contain no secret, so
 * every process on this machine may read them. The page loads its content from the API with the owner's browser session.
 */
export function createOwnerPage(folder = bundle): Mount {
  const assets = readAssets(folder)
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

/** The built files by path. The page itself is at `/owner/`. */
function readAssets(folder: string): ReadonlyMap<string, Asset> {
  const assets = new Map<string, Asset>()
  for (const name of namesIn(folder)) {
    const type = types[extname(name)]
    if (type === undefined || name.startsWith('.')) continue
    const body = readFileSync(join(folder, name))
    const tag = `"${createHash('sha256').update(body).digest('base64url')}"`
    assets.set(`${pagePath}/${name === 'index.html' ? '' : name}`, { body, type, tag })
  }
  return assets
}

/** The names of the built files. @throws if the page was not built completely */
function namesIn(folder: string): readonly string[] {
  const names = existsSync(folder) ? readdirSync(folder) : []
  if (['index.html', 'main.js', 'page.css'].every((name) => names.includes(name))) return names
  throw new Error('The approvals page is not built. Run: npm run web')
}

/** Redirects to the path with its slash. Browsers keep the fragment, which has the link's code. */
function redirect(res: ServerResponse): void {
  res.writeHead(308, { ...security, location: `${pagePath}/`, 'content-length': 0 }).end()
}
