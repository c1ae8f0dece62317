import type { IncomingMessage } from 'node:http'
import { VaultError } from '../errors/error.ts'

/**
 * Lets only programs of this machine in that mean this vault. A page in a browser reaches loopback too: by a request that
 * needs no permission (which has an `Origin` or says where it comes from), or after its name was pointed at 127.0.0.1 (then
 * `Host` is that name). Nothing is done before all of it holds, and no answer ever carries a CORS header.
 *
 * @param port the port that it listens on
 * @param isOwnPage whether a page that the vault itself serves may call: same origin only
 * @throws `ORIGIN_FORBIDDEN`
 */
export function assertLocalRequest(req: IncomingMessage, port: number, isOwnPage: boolean): void {
  const { host, origin, referer } = req.headers
  const names = [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`]
  const hosts = req.rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length
  if (hosts !== 1 || host === undefined || !names.includes(host.toLowerCase()))
    throw forbidden(`Expected Host to be one of ${names.join(', ')}.`)
  const own = `http://${host.toLowerCase()}`
  const site = req.headers['sec-fetch-site']
  const isSame = isOwnPage && origin !== undefined && origin === own
  if (origin !== undefined && !isSame)
    throw forbidden('Expected no Origin: pages of other sites have no access.')
  if (site !== undefined && site !== 'none' && !(isOwnPage && site === 'same-origin'))
    throw forbidden('Expected no request of a page.')
  if (referer !== undefined && !(isOwnPage && referer.startsWith(`${own}/`)))
    throw forbidden('Expected no Referer: pages of other sites have no access.')
}

const forbidden = (message: string): VaultError => new VaultError('ORIGIN_FORBIDDEN', message)
