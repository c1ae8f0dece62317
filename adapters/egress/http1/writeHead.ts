import type { UpstreamRequest } from '../../../core/ports/egress.ts'
import { EgressError } from '../egressError.ts'

const targetForm = /^\/[\x21-\x7e]*$/
const nameForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const valueForm = /^[\t\x20-\x7e\x80-\xff]*$/
const plainMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Whether the client of this folder speaks the request; the rest (upgrades, streamed bodies) is undici's. */
export function isPlain({ method, body, upgrade, headers }: UpstreamRequest): boolean {
  if (upgrade !== undefined || !plainMethods.has(method)) return false
  if (body !== null && !Buffer.isBuffer(body)) return false
  for (let i = 0; i < headers.length; i += 2) if (isConnectionHeader(headers[i]!)) return false
  return true
}

/** Headers that say how the connection is used: undici knows what to do with them. */
function isConnectionHeader(name: string): boolean {
  switch (name.length) {
    case 4:
      return name.toLowerCase() === 'host'
    case 6:
      return name.toLowerCase() === 'expect'
    case 7:
      return name.toLowerCase() === 'upgrade'
    case 10:
      return name.toLowerCase() === 'connection' || name.toLowerCase() === 'keep-alive'
    case 17:
      return name.toLowerCase() === 'transfer-encoding'
    default:
      return false
  }
}

/**
 * Writes a request's head. Names, values and the target are checked here too, whoever made them: a line break in one
 * would be a second request.
 *
 * @param hostLine `Host: …` with its line end
 * @throws {EgressError} `EGRESS_BAD_REQUEST`
 */
export function writeHead(request: UpstreamRequest, hostLine: string): string {
  const { method, path, headers, body, reset } = request
  if (!targetForm.test(path)) throw unfit('a path of printable characters')
  let head = `${method} ${path} HTTP/1.1\r\n${hostLine}Connection: ${reset ? 'close' : 'keep-alive'}\r\n`
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!
    const value = headers[i + 1]!
    // The length is stated below, by the body that is sent.
    if (name.length === 14 && name.toLowerCase() === 'content-length') continue
    if (!nameForm.test(name) || !valueForm.test(value)) throw unfit('headers of printable characters')
    head += `${name}: ${value}\r\n`
  }
  const length = body === null ? 0 : (body as Buffer).length
  if (length > 0 || method === 'POST' || method === 'PUT' || method === 'PATCH') {
    head += `Content-Length: ${length}\r\n`
  }
  return `${head}\r\n`
}

const unfit = (expected: string) =>
  new EgressError('EGRESS_BAD_REQUEST', `The request can not be sent in this form: expected ${expected}.`)
