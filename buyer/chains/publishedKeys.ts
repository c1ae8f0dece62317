import { getAddress, isAddress } from 'viem'
import { publicKeyToAddress } from 'viem/accounts'
import { isObject, own, parseBody } from '../../core/x402/strictJson.ts'
import { callOnce, HttpFailure } from '../httpCall.ts'

/** How long the request for the keys may take, in ms. */
const TIMEOUT_MS = 10_000
/** Maximum size of the document with the keys, in bytes. */
const MAX_DOCUMENT_BYTES = 65_536

/**
 * The addresses of the keys that an origin publishes in its DID document, with their checksums. Redirects are not followed, because
 * another origin cannot publish the keys of this one.
 *
 * @param origin an address with http or https
 * @throws an `Error` if the document cannot be read
 * @see https://w3c-ccg.github.io/did-method-web/
 */
export async function publishedAddresses(origin: URL): Promise<ReadonlySet<string>> {
  const url = documentUrl(origin)
  const unreadable = (why: string) => new Error(`Expected a DID document at ${url}, but ${why}.`)
  const { status, body, isWhole, isWithinLimit } = await callOnce({
    url,
    method: 'GET',
    headers: [],
    body: undefined,
    maxBodyBytes: MAX_DOCUMENT_BYTES,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch((error: unknown) => {
    if (error instanceof HttpFailure) throw unreadable(`no response came: ${error.message}`)
    throw error
  })
  if (status >= 300 && status < 400)
    throw unreadable(
      'the server redirects. Expected keys of the origin itself, so give the address that has them',
    )
  if (status < 200 || status > 299) throw unreadable(`the status was ${status}`)
  if (!isWithinLimit) throw unreadable(`it is larger than ${MAX_DOCUMENT_BYTES.toLocaleString('en')} bytes`)
  if (!isWhole) throw unreadable('the connection broke')
  const document = parseBody(body)
  if (!document.ok || !isObject(document.value)) throw unreadable('it is not a JSON object')
  const methods = own(document.value, 'verificationMethod')
  const found = Array.isArray(methods) ? methods.flatMap(addressOf) : []
  if (found.length === 0) throw unreadable('it has no key for EIP-712')
  return new Set(found)
}

/** An Ethereum address with its checksum. Undefined if the text is none. */
export const readAddress = (text: string): string | undefined =>
  isAddress(text, { strict: false }) ? getAddress(text) : undefined

function documentUrl(origin: URL): URL {
  const path = origin.pathname.replace(/\/$/, '')
  return new URL(path === '' ? '/.well-known/did.json' : `${path}/did.json`, origin)
}

function addressOf(method: unknown): readonly string[] {
  if (!isObject(method)) return []
  const account = own(method, 'blockchainAccountId')
  const address = typeof account === 'string' ? readAddress(account.split(':').at(-1)!) : undefined
  if (address !== undefined) return [address]
  const key = own(method, 'publicKeyJwk')
  if (!isObject(key) || own(key, 'crv') !== 'secp256k1') return []
  const coordinates = [own(key, 'x'), own(key, 'y')].map((text) => Buffer.from(String(text), 'base64url'))
  if (coordinates.some(({ length }) => length !== 32)) return []
  return [publicKeyToAddress(`0x04${Buffer.concat(coordinates).toString('hex')}`)]
}
