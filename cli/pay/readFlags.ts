import { readFile } from 'node:fs/promises'
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { UsageError } from '../../buyer/buyer.ts'
import { parseAmount } from '../../core/domain/money.ts'
import { factsOf, knownNetworks, type NetworkId, networkOfV1Name } from '../../core/domain/network.ts'
import { parseBody } from '../../core/x402/strictJson.ts'

const MAX_REQUEST_BODY_BYTES = 10_000_000
const MAX_SECONDS = 3_600

/** Headers that this program sets itself. The user cannot set them. */
const ownHeaders = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'upgrade',
  'expect',
  'te',
  'trailer',
  'accept-encoding',
  'payment-signature',
  'x-payment',
  'sign-in-with-x',
])

/**
 * Parses a network, which is a CAIP-2 id or one of the short names base, base-sepolia, solana, solana-devnet. @throws
 * {UsageError}
 */
export function readNetwork(text: string): NetworkId {
  const network = networkOfV1Name(text) ?? factsOf(text)?.id
  if (network !== undefined) return network
  throw new UsageError(
    `Expected --network to be one of ${knownNetworks.map((n) => n.name).join(', ')}, or its CAIP-2 id.`,
  )
}

/** Parses `Name: value` lines into a flat list of name, value. @throws {UsageError} */
export function readHeaders(lines: readonly string[]): string[] {
  return lines.flatMap((line) => {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0)).trim()
    const value = line.slice(colon + 1).trim()
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    } catch {
      throw new UsageError('Expected --header "Name: value".')
    }
    if (ownHeaders.has(name.toLowerCase()))
      throw new UsageError(`--header cannot set ${name}, because this program sets it.`)
    return [name, value]
  })
}

/** A body as text, or the content of a file as `@FILE`. @throws {UsageError} */
export async function readRequestBody(text: string): Promise<Uint8Array> {
  const read = text.startsWith('@') ? readFile(text.slice(1)) : Promise.resolve(Buffer.from(text, 'utf8'))
  const body = await read.catch(() => {
    throw new UsageError('The file of --body cannot be read.')
  })
  if (body.length > MAX_REQUEST_BODY_BYTES) throw new UsageError('The body is longer than 10 MB.')
  return body
}

/** The `Content-Type` of a body if the user gives none. */
export const guessContentType = (body: Uint8Array): string =>
  parseBody(body).ok ? 'application/json' : 'application/octet-stream'

/** @throws {UsageError} */
export function readMethod(text: string): string {
  const method = text.toUpperCase()
  if (/^[A-Z]{1,20}$/.test(method) && method !== 'CONNECT' && method !== 'TRACE') return method
  throw new UsageError('Expected --method to be GET, POST, PUT, PATCH, DELETE or another HTTP method.')
}

/** Parses a decimal number of USD above zero. @throws {UsageError} */
export function readUsd(text: string): string {
  try {
    if (parseAmount(text, 18) > 0n) return text
  } catch {
    // The error is thrown below, with the name of this option.
  }
  throw new UsageError('Expected --max to be a number of USD above zero, such as 0.50.')
}

/** Checks an amount of a token above zero. @throws {UsageError} */
export function readDeposit(text: string): string {
  if (/^\d{1,12}(?:\.\d{1,18})?$/.test(text) && /[1-9]/.test(text)) return text
  throw new UsageError('Expected --deposit to be an amount above zero, such as 1 or 0.50.')
}

/** Parses whole seconds into ms. @throws {UsageError} */
export function readSeconds(text: string): number {
  const seconds = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= MAX_SECONDS) return seconds * 1_000
  throw new UsageError(`Expected --timeout to be whole seconds from 1 to ${MAX_SECONDS}.`)
}

/** Parses a number of bytes above zero. @throws {UsageError} */
export function readByteLimit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new UsageError('Expected --max-body to be a number of bytes below 1000000000.')
}

/** @throws {UsageError} */
export function readRpcUrl(text: string): string {
  const isUrl = URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
  if (isUrl) return text
  throw new UsageError('Expected --rpc to be an http or https address.')
}
