import { judgeRoute } from '../remote/allowedRoutes.ts'

/** The proxy's name in its capabilities document; the vault has another. */
export const proxyName = 'tollgate-proxy'

/**
 * The vault's capabilities document as the proxy's own: its name, its address, and of the routes those that it forwards.
 * Undefined when it is no such document.
 *
 * @param mode `local` where the vault itself is on this machine
 */
export function ownCapabilities(body: Buffer, localUrl: string, mode: 'local' | 'proxy'): string | undefined {
  try {
    const document = JSON.parse(body.toString('utf8')) as Record<string, unknown>
    const routes = Array.isArray(document['routes']) ? document['routes'].filter(isForwarded) : []
    return JSON.stringify({ ...document, name: proxyName, mode, local_url: localUrl, routes })
  } catch {
    return undefined
  }
}

function isForwarded(route: unknown): boolean {
  const { method, path } = (route ?? {}) as { method?: unknown; path?: unknown }
  return typeof method === 'string' && typeof path === 'string' && judgeRoute(method, path) === 'allowed'
}
