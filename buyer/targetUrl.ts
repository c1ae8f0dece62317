import { isLoopback } from '../core/http/isLoopback.ts'
import { UsageError } from './usageError.ts'

/**
 * Checks the address that is to be paid: http(s), no credentials, and plain HTTP only to this machine, because whoever
 * can change the answer on the way can change who is paid.
 *
 * @throws {UsageError}
 */
export function readTarget(text: string, allowInsecureHttp: boolean): URL {
  if (!URL.canParse(text))
    throw new UsageError('Expected an address such as https://example.com/api/link/demo/hello.')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new UsageError(`Expected an http or https address, got ${url.protocol}`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('Expected an address without user name and password; use --header for credentials.')
  }
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !allowInsecureHttp) {
    throw new UsageError(
      'Expected https: over plain HTTP anybody on the way can change who is paid. --insecure-http allows it.',
    )
  }
  url.hash = ''
  return url
}
